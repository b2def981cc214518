// SPDX-License-Identifier: Apache-2.0
// ringtune._engine: the binding. No logic; see native/python/ringtune/_engine.pyi for the documentation.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "bindings/engine_handle.h"
#include "bindings/errors.h"
#include "collectives/allreduce.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace ringtune {
namespace {

// A caller that waits looks for Ctrl-C this often.
constexpr int64_t kSignalCheckNs = 100 * kNsPerMs;

int create_segment(int world_size) {
  int fd = -1;
  raise_unless_ok(Segment::create(world_size, fd));
  return fd;
}

LogLevel parse_log_level(const std::string& name) {
  constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warning", "error"};
  for (size_t level = 0; level < kNames.size(); ++level) {
    if (name == kNames[level]) {
      return static_cast<LogLevel>(level);
    }
  }
  throw StatusException({StatusCode::kConfigError, "log level '" + name + "' is none of debug, info, warning, error"});
}

template <typename Enum>
Enum parse_enum(int value, int count, const char* what) {
  if (value < 0 || value >= count) {
    throw StatusException({StatusCode::kConfigError, std::string(what) + " number " + std::to_string(value) +
                                                         " is outside 0 ... " + std::to_string(count - 1)});
  }
  return static_cast<Enum>(value);
}

DataType parse_dtype(int value) { return parse_enum<DataType>(value, kDataTypeCount, "dtype"); }

// What the engine takes over is closed if it cannot be made.
class TakenDescriptors {
 public:
  TakenDescriptors(int segment_fd, const std::vector<int>& pidfds) : fds_(pidfds) { fds_.push_back(segment_fd); }
  ~TakenDescriptors() {
    for (const int fd : fds_) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }
  TakenDescriptors(const TakenDescriptors&) = delete;
  TakenDescriptors& operator=(const TakenDescriptors&) = delete;

  // The engine has them now, but for the segment's, which is mapped.
  void keep_only_segment() { fds_.erase(fds_.begin(), fds_.end() - 1); }

 private:
  std::vector<int> fds_;
};

void construct(EngineHandle* self, int rank, int world_size, int segment_fd, std::vector<int> pidfds,
               std::vector<int> pids, const EngineConfig& config, double stall_warn_s, double timeout_s,
               const std::string& log_level) {
  TakenDescriptors taken(segment_fd, pidfds);
  EngineOptions options{rank,   world_size,   std::move(pidfds), std::move(pids),
                        config, stall_warn_s, timeout_s,         parse_log_level(log_level)};
  raise_unless_ok(Engine::check_options(options));
  std::shared_ptr<Segment> segment;
  raise_unless_ok(Segment::map(segment_fd, world_size, segment));
  taken.keep_only_segment();
  new (self) EngineHandle(std::move(segment), std::move(options));
}

TensorArguments tensor_arguments(std::string name, uintptr_t input, uintptr_t output, std::vector<int64_t> shape,
                                 int dtype) {
  return {std::move(name), reinterpret_cast<const void*>(input), reinterpret_cast<void*>(output), std::move(shape),
          parse_dtype(dtype)};
}

Handle allreduce_async(EngineHandle& self, std::string name, uintptr_t input, uintptr_t output,
                       std::vector<int64_t> shape, int dtype, int op, bool is_gradient) {
  Handle handle = 0;
  const TensorArguments tensor = tensor_arguments(std::move(name), input, output, std::move(shape), dtype);
  const nb::gil_scoped_release unlocked;
  raise_unless_ok(self.engine().allreduce_async(tensor, parse_enum<ReduceOp>(op, kReduceOpCount, "reduce op"),
                                                is_gradient, handle));
  return handle;
}

Handle broadcast_async(EngineHandle& self, std::string name, uintptr_t buffer, std::vector<int64_t> shape, int dtype,
                       int root_rank) {
  Handle handle = 0;
  const TensorArguments tensor = tensor_arguments(std::move(name), buffer, buffer, std::move(shape), dtype);
  const nb::gil_scoped_release unlocked;
  raise_unless_ok(self.engine().broadcast_async(tensor, root_rank, handle));
  return handle;
}

Handle allgather_async(EngineHandle& self, std::string name, uintptr_t input, uintptr_t output,
                       std::vector<int64_t> shape, int dtype) {
  Handle handle = 0;
  const TensorArguments tensor = tensor_arguments(std::move(name), input, output, std::move(shape), dtype);
  const nb::gil_scoped_release unlocked;
  raise_unless_ok(self.engine().allgather_async(tensor, handle));
  return handle;
}

void wait(EngineHandle& self, Handle handle) {
  self.engine().press();
  while (true) {
    std::optional<Status> status;
    {
      const nb::gil_scoped_release unlocked;
      status = self.engine().wait(handle, kSignalCheckNs);
    }
    if (status) {
      raise_unless_ok(*status);
      return;
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
}

void barrier(EngineHandle& self) {
  Handle handle = 0;
  raise_unless_ok(self.engine().barrier_async(handle));
  wait(self, handle);
}

uint64_t apply_config(EngineHandle& self, const EngineConfig& config) {
  uint64_t epoch = 0;
  raise_unless_ok(self.engine().apply_config(config, epoch));
  return epoch;
}

nb::dict counters(EngineHandle& self) {
  nb::dict values;
  for (const auto& [name, value] : self.engine().counters()) {
    values[name.c_str()] = value;
  }
  return values;
}

std::optional<Window> next_window(EngineHandle& self, double timeout_s) {
  const nb::gil_scoped_release unlocked;
  return self.tuner().next_window(seconds_to_ns(timeout_s));
}

std::optional<std::string> void_reason(const Window& window) {
  return window.void_reason == VoidReason::kNone ? std::nullopt
                                                 : std::optional<std::string>(void_reason_name(window.void_reason));
}

EngineConfig make_config(uint64_t fusion_bytes, double cycle_ms, bool hierarchical_allreduce,
                         bool hierarchical_allgather, bool response_cache, std::string allreduce_algorithm,
                         uint64_t chunk_bytes) {
  return {fusion_bytes,
          cycle_ms,
          hierarchical_allreduce,
          hierarchical_allgather,
          response_cache,
          std::move(allreduce_algorithm),
          chunk_bytes};
}

void bind_values(nb::module_& module) {
  nb::class_<EngineConfig>(module, "EngineConfig")
      .def(nb::new_(&make_config), nb::kw_only(), "fusion_bytes"_a, "cycle_ms"_a, "hierarchical_allreduce"_a,
           "hierarchical_allgather"_a, "response_cache"_a, "allreduce_algorithm"_a, "chunk_bytes"_a)
      .def_rw("fusion_bytes", &EngineConfig::fusion_bytes)
      .def_rw("cycle_ms", &EngineConfig::cycle_ms)
      .def_rw("hierarchical_allreduce", &EngineConfig::hierarchical_allreduce)
      .def_rw("hierarchical_allgather", &EngineConfig::hierarchical_allgather)
      .def_rw("response_cache", &EngineConfig::response_cache)
      .def_rw("allreduce_algorithm", &EngineConfig::allreduce_algorithm)
      .def_rw("chunk_bytes", &EngineConfig::chunk_bytes)
      .def("hash", &config_hash);
  nb::class_<Window>(module, "Window")
      .def_ro("epoch", &Window::epoch)
      .def_ro("step_ms", &Window::step_ms)
      .def_ro("bytes_per_step", &Window::bytes_per_step)
      .def_ro("tensor_set", &Window::tensor_set)
      .def_prop_ro("void_reason", &void_reason)
      .def_ro("was_cut", &Window::was_cut);
}

void bind_engine(nb::module_& module) {
  nb::class_<EngineHandle>(module, "Engine")
      .def("__init__", &construct, nb::kw_only(), "rank"_a, "world_size"_a, "segment_fd"_a, "pidfds"_a, "pids"_a,
           "config"_a, "stall_warn_s"_a, "timeout_s"_a, "log_level"_a)
      .def_prop_ro("rank", [](EngineHandle& self) { return self.engine().rank(); })
      .def_prop_ro("world_size", [](EngineHandle& self) { return self.engine().world_size(); })
      .def("allreduce_async", &allreduce_async, "name"_a, "input_ptr"_a, "output_ptr"_a, "shape"_a, "dtype"_a, "op"_a,
           "is_gradient"_a)
      .def("broadcast_async", &broadcast_async, "name"_a, "ptr"_a, "shape"_a, "dtype"_a, "root_rank"_a)
      .def("allgather_async", &allgather_async, "name"_a, "input_ptr"_a, "output_ptr"_a, "shape"_a, "dtype"_a)
      .def("barrier", &barrier)
      .def(
          "poll", [](EngineHandle& self, Handle handle) { return self.engine().poll(handle); }, "handle"_a)
      .def("wait", &wait, "handle"_a)
      .def("mark_step", [](EngineHandle& self) { self.engine().mark_step(); })
      .def("apply_config", &apply_config, "config"_a)
      .def("config", [](EngineHandle& self) { return self.engine().config(); })
      .def("config_epoch", [](EngineHandle& self) { return self.engine().config_epoch(); })
      .def("counters", &counters)
      .def(
          "begin_window",
          [](EngineHandle& self, uint64_t epoch, uint64_t settle_steps, uint64_t steps, double limit_ms) {
            self.tuner().begin_window({epoch, settle_steps, steps, limit_ms});
          },
          "epoch"_a, "settle_steps"_a, "steps"_a, "limit_ms"_a)
      .def("next_window", &next_window, "timeout_s"_a)
      .def("shutdown",
           [](EngineHandle& self) {
             const nb::gil_scoped_release unlocked;
             self.shutdown();
           })
      .def("abandon_after_fork", &EngineHandle::abandon_after_fork);
}

}  // namespace
}  // namespace ringtune

NB_MODULE(_engine, module) {
  // A tuning thread that outlives the interpreter's last look around is no leak worth a report to the user.
  nb::set_leak_warnings(false);
  ringtune::register_errors();
  module.def("create_segment", &ringtune::create_segment, "world_size"_a);
  module.def("allreduce_algorithms", [] {
    std::vector<std::string> names;
    for (const ringtune::AllreduceAlgorithm& algorithm : ringtune::allreduce_algorithms()) {
      names.emplace_back(algorithm.name);
    }
    return names;
  });
  ringtune::bind_values(module);
  ringtune::bind_engine(module);
}
