// SPDX-License-Identifier: Apache-2.0
// Common parts of the calls of one group: the engine's door, the book of calls, and Python's words for errors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/csrc/utils/pybind.h>

#include "bindings/submission_abi.h"
#include "torch_backend/call_book.h"

namespace ringtune_torch {

// Class of `ringtune.errors` and text.
struct Fault {
  std::string kind;
  std::string text;

  // Reads the engine's words.
  static Fault parse(const std::string& words) {
    const size_t colon = words.find(": ");
    return {words.substr(0, colon), words.substr(colon + 2)};
  }
};

// A fault as torch's futures hold it; `module.cpp` has its translation to Python.
class FaultError : public std::runtime_error {
 public:
  explicit FaultError(const Fault& fault) : std::runtime_error(fault.text), kind_(fault.kind) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// Lets go of the GIL, where the thread has it.
class Unlocked {
 public:
  Unlocked() {
    if (PyGILState_Check() != 0) {
      released_.emplace();
    }
  }

 private:
  std::optional<py::gil_scoped_release> released_;
};

// Parts of Python's form; deleted with the GIL.
struct PythonForm {
  py::object calls;     // the group's `Calls`
  py::function recipe;  // `recipes.recipe`
  py::dict methods;     // methods of the class, by name
};

class Surroundings {
 public:
  Surroundings(RingtuneDoor* door, std::shared_ptr<CallBook> book, std::shared_ptr<const PythonForm> python)
      : door(door), book(std::move(book)), python(std::move(python)) {}

  RingtuneDoor* const door;
  const std::shared_ptr<CallBook> book;
  const std::shared_ptr<const PythonForm> python;

  // The error with which a call has ended, in the group's terms.
  Fault explained(const std::string& call, const Fault& fault) const {
    const py::gil_scoped_acquire locked;
    const auto [kind, text] =
        python->calls.attr("explained_fault")(call, fault.kind, fault.text).cast<std::pair<std::string, std::string>>();
    return {kind, text};
  }

  // The reason why no call can end, if there is one: ranks have called different things.
  std::optional<Fault> difference() const {
    const py::gil_scoped_acquire locked;
    const auto fault = python->calls.attr("difference")().cast<std::optional<std::pair<std::string, std::string>>>();
    return fault ? std::optional(Fault{fault->first, fault->second}) : std::nullopt;
  }

  [[noreturn]] void raise(const Fault& fault) const {
    const py::gil_scoped_acquire locked;
    python->calls.attr("raise_fault")(fault.kind, fault.text);
    throw std::logic_error("raise_fault has returned");
  }

  [[noreturn]] void raise_overdue(const std::string& call, uint64_t number, double limit_s) const {
    const py::gil_scoped_acquire locked;
    python->calls.attr("raise_overdue")(call, number, limit_s);
    throw std::logic_error("raise_overdue has returned");
  }

  // Waits for a call of Python's form.
  void finish_elsewhere(uint64_t number) const {
    const py::gil_scoped_acquire locked;
    python->calls.attr("finish")(number);
  }
};

}  // namespace ringtune_torch
