// SPDX-License-Identifier: Apache-2.0
// The compiled form of the backend of torch.distributed: see docs/howto/torch_distributed.md. Compiled by
// `python -m ringtune.torch_backend` against the torch that is installed.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/python_variable.h>

#include "torch_backend/engine_group.h"
#include "torch_backend/gradient_hook.h"

namespace ringtune_torch {
namespace {

// Arguments of a method of Python's, as this form takes them.
class Given {
 public:
  Given(const py::args& positional, const py::kwargs& named) : positional_(positional), named_(named) {}

  std::optional<at::Tensor> tensor(size_t at) const {
    if (at >= positional_.size() || !THPVariable_Check(positional_[at].ptr())) {
      return std::nullopt;
    }
    return THPVariable_Unpack(positional_[at].ptr());
  }

  std::optional<Tensors> tensors(size_t at) const {
    if (at >= positional_.size() || !py::isinstance<py::list>(positional_[at])) {
      return std::nullopt;
    }
    Tensors found;
    for (const py::handle item : py::reinterpret_borrow<py::list>(positional_[at])) {
      if (!THPVariable_Check(item.ptr())) {
        return std::nullopt;
      }
      found.push_back(THPVariable_Unpack(item.ptr()));
    }
    return found;
  }

  std::optional<std::vector<int64_t>> numbers(size_t at) const {
    if (at >= positional_.size() || !py::isinstance<py::list>(positional_[at])) {
      return std::nullopt;
    }
    return positional_[at].cast<std::vector<int64_t>>();
  }

  // The last argument, of Python's name `opts`, or its default; empty where there is another one.
  template <typename Options>
  std::optional<Options> options(size_t at) const {
    if (positional_.size() + named_.size() == at) {
      return Options();
    }
    py::object given;
    if (positional_.size() == at + 1 && named_.empty()) {
      given = positional_[at];
    } else if (positional_.size() == at && named_.size() == 1 && named_.contains("opts")) {
      given = named_["opts"];
    }
    return given && py::isinstance<Options>(given) ? std::optional(given.cast<Options>()) : std::nullopt;
  }

 private:
  const py::args& positional_;
  const py::kwargs& named_;
};

using Serve = std::function<WorkPointer(EngineGroup&, const Given&)>;

template <typename Options>
Serve allreduce(Kind kind) {
  return [kind](EngineGroup& group, const Given& given) {
    const auto tensors = given.tensors(0);
    const auto options = given.options<Options>(1);
    return tensors && options ? group.try_allreduce(*tensors, *options, kind) : WorkPointer();
  };
}

WorkPointer broadcast(EngineGroup& group, const Given& given) {
  const auto tensors = given.tensors(0);
  const auto options = given.options<c10d::BroadcastOptions>(1);
  return tensors && options ? group.try_broadcast(*tensors, *options) : WorkPointer();
}

WorkPointer all_gather(EngineGroup& group, const Given& given) {
  const auto output = given.tensor(0);
  const auto input = given.tensor(1);
  const auto options = given.options<c10d::AllgatherOptions>(2);
  return output && input && options ? group.try_all_gather({*output}, {*input}, *options) : WorkPointer();
}

WorkPointer all_gather_coalesced(EngineGroup& group, const Given& given) {
  const auto outputs = given.tensors(0);
  const auto inputs = given.tensors(1);
  const auto options = given.options<c10d::AllgatherOptions>(2);
  return outputs && inputs && options ? group.try_all_gather(*outputs, *inputs, *options) : WorkPointer();
}

WorkPointer reduce_scatter(EngineGroup& group, const Given& given) {
  const auto output = given.tensor(0);
  const auto input = given.tensor(1);
  const auto options = given.options<c10d::ReduceScatterOptions>(2);
  return output && input && options ? group.try_reduce_scatter({*output}, {*input}, *options) : WorkPointer();
}

WorkPointer reduce_scatter_coalesced(EngineGroup& group, const Given& given) {
  const auto outputs = given.tensors(0);
  const auto inputs = given.tensors(1);
  const auto options = given.options<c10d::ReduceScatterOptions>(2);
  return outputs && inputs && options ? group.try_reduce_scatter(*outputs, *inputs, *options) : WorkPointer();
}

WorkPointer all_to_all(EngineGroup& group, const Given& given) {
  const auto output = given.tensor(0);
  const auto input = given.tensor(1);
  const auto taken = given.numbers(2);
  const auto sent = given.numbers(3);
  const auto options = given.options<c10d::AllToAllOptions>(4);
  if (!output || !input || !taken || !sent || !options) {
    return {};
  }
  return group.try_all_to_all(*output, *input, *taken, *sent, *options);
}

WorkPointer barrier(EngineGroup& group, const Given& given) {
  const auto options = given.options<c10d::BarrierOptions>(0);
  return options ? group.try_barrier(*options) : WorkPointer();
}

// Methods of `RingtuneGroup` that this form takes over, with torch's older names.
const std::map<std::string, Serve>& served() {
  static const std::map<std::string, Serve> table{
      {"allreduce", allreduce<c10d::AllreduceOptions>(Kind::kAllreduce)},
      {"allreduce_coalesced", allreduce<c10d::AllreduceCoalescedOptions>(Kind::kAllreduceCoalesced)},
      {"broadcast", broadcast},
      {"all_gather_single", all_gather},
      {"_allgather_base", all_gather},
      {"all_gather_single_coalesced", all_gather_coalesced},
      {"allgather_into_tensor_coalesced", all_gather_coalesced},
      {"reduce_scatter_single", reduce_scatter},
      {"_reduce_scatter_base", reduce_scatter},
      {"reduce_scatter_single_coalesced", reduce_scatter_coalesced},
      {"reduce_scatter_tensor_coalesced", reduce_scatter_coalesced},
      {"all_to_all_single", all_to_all},
      {"alltoall_base", all_to_all},
      {"barrier", barrier},
  };
  return table;
}

EngineGroup& group_of(const py::handle& self) { return static_cast<EngineGroup&>(self.cast<c10d::ProcessGroup&>()); }

// Torch's own trampolines look for methods of a `ProcessGroup`, so this is one for Python, with another C++ object:
// made as `ProcessGroup.__init__` makes it.
void construct(const py::handle& self, int rank, int size) {
  const py::detail::type_info* type = py::detail::get_type_info(typeid(c10d::ProcessGroup));
  if (type == nullptr) {
    throw std::runtime_error("torch's process groups are unknown here: torch was built by another kind of compiler");
  }
  auto* instance = reinterpret_cast<py::detail::instance*>(self.ptr());
  py::detail::value_and_holder slot = instance->get_value_and_holder(type);
  slot.value_ptr() = static_cast<c10d::ProcessGroup*>(new EngineGroup(rank, size));
  type->init_instance(instance, nullptr);
}

void open(const py::handle& self, uintptr_t door, py::object calls, py::function recipe, py::dict methods) {
  // Torch keeps groups in a static registry. At the exit of a program that has not destroyed them, Python has ended.
  const auto end = [](const PythonForm* python) {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire locked;
    delete python;
  };
  std::shared_ptr<const PythonForm> python(new PythonForm{std::move(calls), std::move(recipe), std::move(methods)},
                                           end);
  group_of(self).open(reinterpret_cast<RingtuneDoor*>(door), std::move(python));
}

// Methods for a subclass: each serves the calls of this form, and hands all others to the method of Python's form.
py::dict take_over(const py::dict& methods) {
  py::dict found;
  for (const auto& [name, serve] : served()) {
    const py::function complete = methods[name.c_str()];
    const auto call = [serve = serve, complete](const py::object& self, const py::args& positional,
                                                const py::kwargs& named) -> py::object {
      if (WorkPointer work = serve(group_of(self), Given(positional, named))) {
        return py::cast(std::move(work));
      }
      return complete(self, *positional, **named);
    };
    found[name.c_str()] =
        py::cpp_function(call, py::name(name.c_str()), py::is_method(py::type::of<c10d::ProcessGroup>()));
  }
  return found;
}

std::map<uint64_t, std::string> open_calls(const CallBook& book, size_t most) {
  std::map<uint64_t, std::string> found;
  for (const auto& [number, call] : book.open()) {
    if (found.size() == most) {
      break;
    }
    found.emplace(number, call.text->text);
  }
  return found;
}

void finish(CallBook& book, uint64_t number) {
  const Unlocked unlocked;
  KeptPointer work;
  {
    const std::lock_guard lock(book.mutex());
    work = book.work_of(number);
  }
  if (work) {
    work->finish();
  }
}

void bind_book(py::module_& module) {
  py::class_<CallBook, std::shared_ptr<CallBook>>(module, "CallBook")
      .def(py::init<>())
      .def("__enter__",
           [](CallBook& book) {
             const py::gil_scoped_release unlocked;
             book.mutex().lock();
           })
      .def("__exit__", [](CallBook& book, const py::args&) { book.mutex().unlock(); })
      .def("holder", [](CallBook& book, const std::string& text) { return book.holder(*book.find(text)); })
      .def("next_name", [](CallBook& book, const std::string& text) { return book.next_name(*book.find(text)); })
      .def("begin", [](CallBook& book, const std::string& text) { return book.begin(book.find(text), {}); })
      .def("end", [](CallBook& book, uint64_t number) { book.end(number); })
      .def("open", &open_calls)
      .def("differ", &CallBook::differ)
      .def("close", &CallBook::close)
      .def("finish", &finish)
      .def_property_readonly("number", &CallBook::number)
      .def_property_readonly("is_closed", &CallBook::is_closed);
}

void translate(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const FaultError& error) {
    const py::object type = py::module_::import("ringtune.errors").attr(error.kind().c_str());
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace
}  // namespace ringtune_torch

PYBIND11_MODULE(ringtune_torch_backend, module) {
  using namespace ringtune_torch;
  py::register_exception_translator(&translate);
  bind_book(module);
  bind_gradient_hooks(module);
  module.def("construct", &construct);
  module.def("book_of", [](const py::handle& self) { return group_of(self).book(); });
  module.def("open", &ringtune_torch::open);
  module.def("take_over", &take_over);
  module.def("set_limit", [](const py::handle& self, double limit_s) { group_of(self).set_limit(limit_s); });
  module.def("set_coalescing",
             [](const py::handle& self, bool is_coalescing) { group_of(self).set_coalescing(is_coalescing); });
}

// Asked before the form is used: an engine of another version has another table.
extern "C" uint32_t ringtune_submission_version() { return kRingtuneSubmissionVersion; }
