// SPDX-License-Identifier: Apache-2.0
// Hooks of a distributed optimizer that submit plain gradients without Python's form, see
// `ringtune.torch.gradient_hooks`. They do what `GradientReducer.gradient_ready` does, on the same objects.
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

// An allreduce of one gradient, as `ringtune.world.handles.Handle`.
class GradientFlight : public std::enable_shared_from_this<GradientFlight> {
 public:
  GradientFlight(RingtuneDoor* door, at::Tensor gradient) : door_(door), gradient_(std::move(gradient)) {}

  void start(const RingtuneRequest& request) {
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

  RingtuneDoor* const door_;
  const at::Tensor gradient_;
  std::atomic<bool> has_ended_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string told_;  // the engine's words where it was an error; stays once has_ended_
  std::shared_ptr<GradientFlight> own_;
};

// The way of one optimizer's gradients past Python's form: open between a step's first gradients and its end.
struct GradientLane {
  const py::object reducer;  // weak
  const uint32_t reduction;
  const double prescale;
  const double postscale;
  RingtuneDoor* door = nullptr;  // null while Python's form takes all gradients
};

class GradientHook {
 public:
  // `dtype` is the engine's number for that of the parameter as it is now.
  GradientHook(std::shared_ptr<GradientLane> lane, py::object entry, std::string name, const at::Tensor& parameter,
               uint32_t dtype, py::object complete)
      : lane_(std::move(lane)),
        entry_(std::move(entry)),
        name_(std::move(name)),
        type_(parameter.scalar_type()),
        dtype_(dtype),
        complete_(std::move(complete)) {}

  // Python's form of the hook.
  const py::object& complete() const { return complete_; }

  void ready(const py::handle& parameter) const {
    if (lane_->door == nullptr || !try_submit(parameter)) {
      complete_(parameter);
    }
  }

 private:
  static py::object living(const py::object& weak) { return weak(); }

  bool try_submit(const py::handle& given) const {
    const py::object entry = living(entry_);
    const py::object reducer = living(lane_->reducer);
    if (entry.is_none() || reducer.is_none() || !is_plain_entry(entry, given)) {
      return false;
    }
    const at::Tensor& parameter = THPVariable_Unpack(given.ptr());
    const at::Tensor& found = parameter.grad();
    if (!is_plain_gradient(found, parameter)) {
      return false;
    }
    const py::object home = entry.attr("home");
    const std::optional<at::Tensor> gradient = home.is_none() ? found : taken_in(home, parameter, found);
    if (!gradient) {
      return false;
    }
    const auto flight = std::make_shared<GradientFlight>(lane_->door, *gradient);
    flight->start(request(*gradient));
    entry.attr("handle") = flight;
    entry.attr("gradient") = py::reinterpret_steal<py::object>(THPVariable_Wrap(*gradient));
    entry.attr("version") = gradient->_version();
    entry.attr("pointer") = reinterpret_cast<uintptr_t>(gradient->const_data_ptr());
    reducer.attr("_in_flight").attr("append")(entry);
    return true;
  }

  // True if the parameter's entry asks for nothing but to be reduced on its own, as it is.
  static bool is_plain_entry(const py::object& entry, const py::handle& parameter) {
    return entry.attr("parameter").ptr() == parameter.ptr() && entry.attr("handle").is_none() &&
           py::len(entry.attr("others")) == 0 && !entry.attr("is_sparse").cast<bool>();
  }

  bool is_plain_gradient(const at::Tensor& gradient, const at::Tensor& parameter) const {
    return is_plain(gradient) && !gradient.requires_grad() && !gradient.is_inference() && gradient.numel() > 0 &&
           gradient.scalar_type() == type_ && parameter.scalar_type() == type_ &&
           gradient.sizes().equals(parameter.sizes());
  }

  // See `GradientHome.take_in`; nothing where the gradient cannot live there.
  static std::optional<at::Tensor> taken_in(const py::object& home, const at::Tensor& parameter,
                                            const at::Tensor& found) {
    const py::object tensor = home.attr("_tensor");
    const at::Tensor& place = THPVariable_Unpack(tensor.ptr());
    if (found.is_same(place)) {
      return place;
    }
    if (Py_REFCNT(tensor.ptr()) != home.attr("_references").cast<Py_ssize_t>() || !is_plain(place) ||
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
  const py::object entry_;  // weak: the entry holds the parameter, and that this hook
  const std::string name_;
  const at::ScalarType type_;
  const uint32_t dtype_;
  const py::object complete_;
};

inline void bind_gradient_hooks(py::module_& module) {
  py::class_<GradientFlight, std::shared_ptr<GradientFlight>>(module, "GradientFlight")
      .def("poll", &GradientFlight::has_ended)
      .def("wait", &GradientFlight::wait);
  py::class_<GradientLane, std::shared_ptr<GradientLane>>(module, "GradientLane")
      .def(py::init([](py::object reducer, uint32_t reduction, double prescale, double postscale) {
        return std::make_shared<GradientLane>(std::move(reducer), reduction, prescale, postscale);
      }))
      .def("open", [](GradientLane& lane, uintptr_t door) { lane.door = reinterpret_cast<RingtuneDoor*>(door); })
      .def("close", [](GradientLane& lane) { lane.door = nullptr; });
  py::class_<GradientHook>(module, "GradientHook")
      .def(py::init<std::shared_ptr<GradientLane>, py::object, std::string, const at::Tensor&, uint32_t, py::object>())
      .def("__call__", &GradientHook::ready)
      .def("__deepcopy__", [](const GradientHook& hook, const py::object&) { return hook.complete(); })
      .def_property_readonly("complete", &GradientHook::complete);
}

}  // namespace ringtune_torch
