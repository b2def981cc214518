// SPDX-License-Identifier: Apache-2.0
// Bounds of a wait for a GPU or for NCCL: the world's failure, an interruption, the time limit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "transport/transport.h"

namespace ringtune {

class Patience {
 public:
  // Answers whether a wait goes on: ok, or the reason why it ends.
  using Watch = std::function<Status()>;

  Patience(Transport& transport, int64_t timeout_ns) : transport_(transport), timeout_ns_(timeout_ns) {}

  // For a wait that begins now. `what`, for the error: "for 'x' to be copied from its GPU".
  Watch begin(const std::string& what) const;
  // NCCL is the last to see a peer's death: waits a moment for a better explanation of an error.
  Status explain(const Status& seen) const;

 private:
  Transport& transport_;
  const int64_t timeout_ns_;
};

}  // namespace ringtune
