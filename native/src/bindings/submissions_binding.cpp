// SPDX-License-Identifier: Apache-2.0
#include "bindings/submissions_binding.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/clock.h"
#include "bindings/errors.h"
#include "bindings/parse_enum.h"
#include "bindings/signals.h"
#include "device/device_memory.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace ringtune {
namespace {

TensorArguments tensor_arguments(std::string name, uintptr_t input, uintptr_t output, std::vector<int64_t> shape,
                                 int dtype, const DeviceStream& stream, std::string group = {},
                                 uint32_t group_size = 0) {
  return {std::move(name),
          reinterpret_cast<const void*>(input),
          reinterpret_cast<void*>(output),
          std::move(shape),
          parse_dtype(dtype),
          std::move(group),
          group_size,
          stream};
}

ReduceArguments reduce_arguments(int op, double prescale, double postscale) {
  return {parse_enum<ReduceOp>(op, kReduceOpCount, "reduce op"), prescale, postscale};
}

// Calls `submit(engine, handle)` without the GIL and returns the handle.
template <typename Submit>
Handle submitted(EngineHandle& self, Submit submit) {
  Handle handle = kNoHandle;
  Engine& engine = self.engine();
  const nb::gil_scoped_release unlocked;
  raise_unless_ok(submit(engine, handle));
  return handle;
}

Handle allreduce_async(EngineHandle& self, std::string name, uintptr_t input, uintptr_t output,
                       std::vector<int64_t> shape, int dtype, int op, bool is_gradient, double prescale,
                       double postscale, std::string group, uint32_t group_size, int device, uint64_t stream) {
  const TensorArguments tensor = tensor_arguments(std::move(name), input, output, std::move(shape), dtype,
                                                  {device, stream}, std::move(group), group_size);
  const ReduceArguments reduce = reduce_arguments(op, prescale, postscale);
  return submitted(self, [&](Engine& engine, Handle& handle) {
    return engine.allreduce_async(tensor, reduce, is_gradient, handle);
  });
}

Handle reducescatter_async(EngineHandle& self, std::string name, uintptr_t input, uintptr_t output,
                           std::vector<int64_t> shape, int dtype, int op, double prescale, double postscale,
                           std::string group, uint32_t group_size, int device, uint64_t stream) {
  const TensorArguments tensor = tensor_arguments(std::move(name), input, output, std::move(shape), dtype,
                                                  {device, stream}, std::move(group), group_size);
  const ReduceArguments reduce = reduce_arguments(op, prescale, postscale);
  return submitted(self,
                   [&](Engine& engine, Handle& handle) { return engine.reducescatter_async(tensor, reduce, handle); });
}

Handle broadcast_async(EngineHandle& self, std::string name, uintptr_t buffer, std::vector<int64_t> shape, int dtype,
                       int root_rank, int device, uint64_t stream) {
  const TensorArguments tensor =
      tensor_arguments(std::move(name), buffer, buffer, std::move(shape), dtype, {device, stream});
  return submitted(self,
                   [&](Engine& engine, Handle& handle) { return engine.broadcast_async(tensor, root_rank, handle); });
}

Handle allgather_async(EngineHandle& self, std::string name, uintptr_t input, std::vector<int64_t> shape, int dtype,
                       std::string group, uint32_t group_size, bool is_gradient, int device, uint64_t stream,
                       uintptr_t output, size_t output_bytes) {
  TensorArguments tensor = tensor_arguments(std::move(name), input, output, std::move(shape), dtype, {device, stream},
                                            std::move(group), group_size);
  tensor.output_bytes = output_bytes;
  return submitted(self,
                   [&](Engine& engine, Handle& handle) { return engine.allgather_async(tensor, is_gradient, handle); });
}

Handle alltoall_async(EngineHandle& self, std::string name, uintptr_t input, std::vector<int64_t> shape, int dtype,
                      std::vector<int64_t> splits, int device, uint64_t stream, uintptr_t output, size_t output_bytes) {
  TensorArguments tensor = tensor_arguments(std::move(name), input, output, std::move(shape), dtype, {device, stream});
  tensor.output_bytes = output_bytes;
  return submitted(
      self, [&](Engine& engine, Handle& handle) { return engine.alltoall_async(tensor, std::move(splits), handle); });
}

Handle join_async(EngineHandle& self) {
  return submitted(self, [](Engine& engine, Handle& handle) { return engine.join_async(handle); });
}

// Python's hold on the output that an operation made itself.
struct Result {
  std::shared_ptr<Gathered> gathered;
};

nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> result_memory(const Result& result) {
  const nb::capsule owner(new Result(result), [](void* held) noexcept { delete static_cast<Result*>(held); });
  return {result.gathered->data(), {result.gathered->bytes()}, owner};
}

// Bytes of a result that stayed on its GPU; 0 where its memory is the host's.
size_t bytes_on_device(const Result& result) {
  return result.gathered->on_device == nullptr ? 0 : result.gathered->on_device->bytes();
}

// Enqueues the copy of a result that stayed on its GPU, once, on the stream that has waited for it.
void move_to(const Result& result, uintptr_t memory, uint64_t stream) {
  if (result.gathered->on_device == nullptr) {
    throw nb::value_error("the result is in host memory, or was moved before");
  }
  const std::shared_ptr<DeviceMemory> taken = std::exchange(result.gathered->on_device, nullptr);
  const nb::gil_scoped_release unlocked;
  raise_unless_ok(taken->move_to(memory, reinterpret_cast<cuda::Stream>(stream)));
}

std::optional<Result> wait(EngineHandle& self, Handle handle, int device, uint64_t stream) {
  while (true) {
    std::optional<Outcome> outcome;
    {
      const nb::gil_scoped_release unlocked;
      outcome = self.engine().wait(handle, kSignalCheckNs, &is_interrupted, {device, stream});
    }
    if (outcome) {
      raise_unless_ok(outcome->status);
      return outcome->result ? std::optional(Result{outcome->result}) : std::nullopt;
    }
    if (has_signal_raised()) {
      throw nb::python_error();
    }
  }
}

// Waits for a limited time; returns whether the operation has ended, and its result. A handle that is still pending can
// be waited for again.
std::pair<bool, std::optional<Result>> wait_within(EngineHandle& self, Handle handle, double limit_s) {
  const int64_t limit_ns = now_ns() + seconds_to_ns(limit_s);
  while (true) {
    std::optional<Outcome> outcome;
    {
      const nb::gil_scoped_release unlocked;
      const int64_t left_ns = std::max<int64_t>(0, limit_ns - now_ns());
      outcome = self.engine().wait(handle, std::min(kSignalCheckNs, left_ns), &is_interrupted);
    }
    if (outcome) {
      raise_unless_ok(outcome->status);
      return {true, outcome->result ? std::optional(Result{outcome->result}) : std::nullopt};
    }
    if (has_signal_raised()) {
      throw nb::python_error();
    }
    if (now_ns() >= limit_ns) {
      return {false, std::nullopt};
    }
  }
}

void barrier(EngineHandle& self) {
  Handle handle = kNoHandle;
  raise_unless_ok(self.engine().barrier_async(handle));
  wait(self, handle, kNoDevice, 0);
}

bool poll(EngineHandle& self, Handle handle) {
  Engine& engine = self.engine();
  const nb::gil_scoped_release unlocked;
  return engine.poll(handle);
}

bool is_drained(EngineHandle& self, Handle handle) {
  const nb::gil_scoped_release unlocked;
  return self.is_drained(handle);
}

}  // namespace

void bind_submissions(nb::module_& module, nb::class_<EngineHandle>& engine) {
  nb::class_<Result>(module, "Result")
      .def_prop_ro("memory", &result_memory, nb::rv_policy::automatic)  // it brings its owner
      .def_prop_ro("bytes_on_device", &bytes_on_device)
      .def("move_to", &move_to, "memory_ptr"_a, "stream"_a)
      .def_prop_ro("rows", [](const Result& result) { return result.gathered->rows; });
  engine
      .def("allreduce_async", &allreduce_async, "name"_a, "input_ptr"_a, "output_ptr"_a, "shape"_a, "dtype"_a, "op"_a,
           "is_gradient"_a, "prescale"_a = 1.0, "postscale"_a = 1.0, "group"_a = "", "group_size"_a = 0,
           "device"_a = kNoDevice, "stream"_a = 0)
      .def("reducescatter_async", &reducescatter_async, "name"_a, "input_ptr"_a, "output_ptr"_a, "shape"_a, "dtype"_a,
           "op"_a, "prescale"_a = 1.0, "postscale"_a = 1.0, "group"_a = "", "group_size"_a = 0, "device"_a = kNoDevice,
           "stream"_a = 0)
      .def("broadcast_async", &broadcast_async, "name"_a, "ptr"_a, "shape"_a, "dtype"_a, "root_rank"_a,
           "device"_a = kNoDevice, "stream"_a = 0)
      .def("allgather_async", &allgather_async, "name"_a, "input_ptr"_a, "shape"_a, "dtype"_a, "group"_a = "",
           "group_size"_a = 0, "is_gradient"_a = false, "device"_a = kNoDevice, "stream"_a = 0, "output_ptr"_a = 0,
           "output_bytes"_a = 0)
      .def("alltoall_async", &alltoall_async, "name"_a, "input_ptr"_a, "shape"_a, "dtype"_a, "splits"_a,
           "device"_a = kNoDevice, "stream"_a = 0, "output_ptr"_a = 0, "output_bytes"_a = 0)
      .def("join_async", &join_async)
      .def("barrier", &barrier)
      .def("poll", &poll, "handle"_a)
      .def("wait", &wait, "handle"_a, "device"_a = kNoDevice, "stream"_a = 0)
      .def("wait_within", &wait_within, "handle"_a, "limit_s"_a)
      .def("is_drained", &is_drained, "handle"_a);
}

}  // namespace ringtune
