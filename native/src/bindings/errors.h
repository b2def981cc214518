// SPDX-License-Identifier: Apache-2.0
// Engine statuses as Python exceptions: the classes of ringtune.errors.
#pragma once

#include <exception>
#include <string>

#include <nanobind/nanobind.h>

#include "base/status.h"

namespace ringtune {

class StatusException : public std::exception {
 public:
  explicit StatusException(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

// The class of ringtune.errors that stands for a code.
const char* error_class_name(StatusCode code);

inline void raise_unless_ok(const Status& status) {
  if (!status.ok()) {
    throw StatusException(status);
  }
}

void register_errors();

}  // namespace ringtune
