// SPDX-License-Identifier: Apache-2.0
// Hooks of a distributed optimizer that submit plain gradients without Python's form, see
// `ringtune.torch.gradient_hooks`. They do the work of `GradientReducer.gradient_ready`, on the same objects.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <torch/csrc/autograd/python_variable.h>

#include "torch_backend/call.h"
#include "torch_backend/driving.h"
#include "torch_backend/surroundings.h"

namespace ringtune_torch {

// An allreduce of one gradient. It can start again once it has ended.
class GradientFlight : public std::enable_shared_from_this<GradientFlight> {
 public:
  void start(RingtuneDoor* door, const at::Tensor& gradient, const RingtuneRequest& request) {
    door_ = door;
    gradient_ = gradient;
    has_ended_ = false;
    told_.clear();
    own_ = shared_from_this();  // until the engine is done with the memory
    const py::gil_scoped_release unlocked;
    door_->table->submit(door_, &request, &on_end, this);
  }

  bool has_ended() const { return has_ended_; }

  // Waits for the end; raises the engine's error.
  void wait() {
    if (!has_ended_) {
      const py::gil_scoped_release unlocked;
      while (!drive(door_, kSignalCheck, mutex_, ended_, [this] { return has_ended_.load(); })) {
      }
    }
    gradient_.reset();
    if (!told_.empty()) {
      throw FaultError(Fault::parse(told_));
    }
  }

 private:
  // On the engine's thread, or on that of a caller that waits.
  static void on_end(void* context, const char* error) {
    auto* const flight = static_cast<GradientFlight*>(context);
    std::shared_ptr<GradientFlight> own;
    {
      const std::lock_guard lock(flight->mutex_);
      own = std::move(flight->own_);
      flight->told_ = error == nullptr ? "" : error;
      flight->has_ended_ = true;
    }
    flight->ended_.notify_all();
  }

  RingtuneDoor* door_ = nullptr;
  at::Tensor gradient_;
  std::atomic<bool> has_ended_{true};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string told_;  // the engine's words where it was an error; stays once has_ended_
  std::shared_ptr<GradientFlight> own_;
};

// Attributes of Python's objects that hooks read and write. A string made for each access costs more than the access.
struct GradientNames {
  static py::object interned(const char* name) {
    return py::reinterpret_steal<py::object>(PyUnicode_InternFromString(name));
  }

  const py::object gradient = interned("gradient");
  const py::object handle = interned("handle");
  const py::object home = interned("home");
  const py::object in_flight = interned("_in_flight");
  const py::object is_sparse = interned("is_sparse");
  const py::object others = interned("others");
  const py::object parameter = interned("parameter");
  const py::object pointer = interned("pointer");
  const py::object references = interned("_references");
  const py::object tensor = interned("_tensor");
  const py::object version = interned("version");
};

// The way of one optimizer's gradients past Python's form: open between a step's first gradients and its end.
struct GradientLane {
  const py::weakref reducer;
  const uint32_t reduction;
  const double prescale;
  const double postscale;
  const GradientNames names;
  RingtuneDoor* door = nullptr;  // null while Python's form takes all gradients
};

// The hook of one parameter. While its gradient is in flight it is the entry's handle, a
// `ringtune.world.handles.Handle`.
class GradientHook {
 public:
  // `dtype` is the engine's number for that of the parameter as it is now.
  GradientHook(std::shared_ptr<GradientLane> lane, py::weakref entry, std::string name, const at::Tensor& parameter,
               uint32_t dtype, py::object complete)
      : lane_(std::move(lane)),
        entry_(std::move(entry)),
        name_(std::move(name)),
        type_(parameter.scalar_type()),
        dtype_(dtype),
        complete_(std::move(complete)) {}

  // Python's form of the hook.
  const py::object& complete() const { return complete_; }

  void ready(const py::object& self, const py::handle& parameter) {
    if (lane_->door == nullptr || !try_submit(self, parameter)) {
      complete_(parameter);
    }
  }

  bool has_ended() const { return flight_->has_ended(); }

  void wait() const { flight_->wait(); }

 private:
  bool try_submit(const py::object& self, const py::handle& given) {
    const GradientNames& names = lane_->names;
    const auto entry = living(entry_);
    const auto reducer = living(lane_->reducer);
    if (entry.is_none() || reducer.is_none() || !is_plain_entry(entry, given)) {
      return false;
    }
    const at::Tensor& parameter = THPVariable_Unpack(given.ptr());
    const at::Tensor& found = parameter.grad();
    if (!is_plain_gradient(found, parameter)) {
      return false;
    }
    const py::object home = entry.attr(names.home);
    const std::optional<at::Tensor> gradient = home.is_none() ? found : taken_in(home, parameter, found);
    if (!gradient) {
      return false;
    }
    if (flight_.use_count() > 1) {  // an earlier gradient was given up, and the engine still has it
      flight_ = std::make_shared<GradientFlight>();
    }
    flight_->start(lane_->door, *gradient, request(*gradient));
    entry.attr(names.handle) = self;
    entry.attr(names.gradient) = py::reinterpret_steal<py::object>(THPVariable_Wrap(*gradient));
    entry.attr(names.version) = gradient->_version();
    entry.attr(names.pointer) = reinterpret_cast<uintptr_t>(gradient->const_data_ptr());
    if (PyList_Append(py::object(reducer.attr(names.in_flight)).ptr(), entry.ptr()) != 0) {
      throw py::error_already_set();
    }
    return true;
  }

  static py::object living(const py::weakref& weak) {
    return py::reinterpret_borrow<py::object>(PyWeakref_GetObject(weak.ptr()));
  }

  // True if the parameter's gradient is dense, is not in flight, and is reduced on its own.
  bool is_plain_entry(const py::object& entry, const py::handle& parameter) const {
    const GradientNames& names = lane_->names;
    return entry.attr(names.parameter).ptr() == parameter.ptr() && entry.attr(names.handle).is_none() &&
           PyList_GET_SIZE(entry.attr(names.others).ptr()) == 0 && entry.attr(names.is_sparse).ptr() == Py_False;
  }

  bool is_plain_gradient(const at::Tensor& gradient, const at::Tensor& parameter) const {
    return is_plain(gradient) && !gradient.requires_grad() && !gradient.is_inference() && gradient.numel() > 0 &&
           gradient.scalar_type() == type_ && parameter.scalar_type() == type_ &&
           gradient.sizes().equals(parameter.sizes());
  }

  // See `GradientHome.take_in`; no value where the gradient cannot live there.
  std::optional<at::Tensor> taken_in(const py::object& home, const at::Tensor& parameter,
                                     const at::Tensor& found) const {
    const py::object tensor = home.attr(lane_->names.tensor);
    const at::Tensor& place = THPVariable_Unpack(tensor.ptr());
    if (found.is_same(place)) {
      return place;
    }
    if (Py_REFCNT(tensor.ptr()) != home.attr(lane_->names.references).cast<Py_ssize_t>() || !is_plain(place) ||
        place.scalar_type() != found.scalar_type() || !place.sizes().equals(found.sizes())) {
      return std::nullopt;
    }
    std::memcpy(place.mutable_data_ptr(), found.const_data_ptr(), found.nbytes());
    place.unsafeGetTensorImpl()->bump_version();
    parameter.mutable_grad() = place;
    return place;
  }

  RingtuneRequest request(const at::Tensor& gradient) const {
    RingtuneRequest made{};
    made.collective = kRingtuneAllreduce;
    made.dtype = dtype_;
    made.name = name_.c_str();
    made.input = gradient.const_data_ptr();
    made.output = gradient.mutable_data_ptr();
    made.output_bytes = gradient.nbytes();
    made.shape = gradient.sizes().data();
    made.dimensions = static_cast<uint32_t>(gradient.dim());
    made.reduction = lane_->reduction;
    made.prescale = lane_->prescale;
    made.postscale = lane_->postscale;
    made.is_gradient = 1;
    made.group = "";
    return made;
  }

  const std::shared_ptr<GradientLane> lane_;
  const py::weakref entry_;  // the entry holds the parameter, and that this hook
  const std::string name_;
  const at::ScalarType type_;
  const uint32_t dtype_;
  const py::object complete_;
  std::shared_ptr<GradientFlight> flight_ = std::make_shared<GradientFlight>();
};

inline void bind_gradient_hooks(py::module_& module) {
  py::class_<GradientLane, std::shared_ptr<GradientLane>>(module, "GradientLane")
      .def(py::init([](py::weakref reducer, uint32_t reduction, double prescale, double postscale) {
        return std::make_shared<GradientLane>(std::move(reducer), reduction, prescale, postscale, GradientNames{});
      }))
      .def("open", [](GradientLane& lane, uintptr_t door) { lane.door = reinterpret_cast<RingtuneDoor*>(door); })
      .def("close", [](GradientLane& lane) { lane.door = nullptr; });
  py::class_<GradientHook>(module, "GradientHook")
      .def(py::init<std::shared_ptr<GradientLane>, py::weakref, std::string, const at::Tensor&, uint32_t, py::object>())
      .def("__call__", [](const py::object& self,
                          const py::handle& parameter) { self.cast<GradientHook&>().ready(self, parameter); })
      .def("poll", &GradientHook::has_ended)
      .def("wait", &GradientHook::wait)
      .def("__deepcopy__", [](const GradientHook& hook, const py::object&) { return hook.complete(); })
      .def_property_readonly("complete", &GradientHook::complete);
}

}  // namespace ringtune_torch
