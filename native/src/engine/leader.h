// SPDX-License-Identifier: Apache-2.0
// Leader of a host, which gets its ranks' requests: rank 0 answers them (Coordinator), the others pass
// them on to rank 0 (HostLeader).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/failure.h"

namespace ringtune {

class Leader {
 public:
  virtual ~Leader() = default;

  // The communication thread. True if something was received or sent.
  virtual bool progress(int64_t now_ns) = 0;
  // True if messages wait for room.
  virtual bool is_congested() const = 0;
  // When there is work though no message comes.
  virtual std::optional<int64_t> due_ns() const { return std::nullopt; }
};

// Failure that ends the world where a frame of a rank is no request.
Failure unreadable_request(int rank, size_t frame_bytes);

}  // namespace ringtune
