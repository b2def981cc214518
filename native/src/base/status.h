// SPDX-License-Identifier: Apache-2.0
// Result of a call that can fail. Exceptions exist only at the binding.
#pragma once

#include <string>
#include <utility>

namespace ringtune {

// One code per Python error class (ringtune.errors); the binding translates by this name.
enum class StatusCode {
  kOk,
  kConfigError,
  kMismatchError,
  kPeerLostError,
  kCollectiveTimeout,
  kForkedProcessError,
  kDeviceError,
  kShutDown,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok_status() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace ringtune
