// SPDX-License-Identifier: Apache-2.0
// Division of a message among lanes of unlike speed, such that all are through with it at one time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ringtune {

// State of a lane, as the system sees it.
struct LaneLoad {
  double bytes_per_s = 0;   // at which its bytes have been confirmed lately; 0 where that is not known
  double queued_bytes = 0;  // sent or waiting, and not confirmed
  bool is_limited = false;  // the sender had too little for it: its rate may be higher
};

// The load of a connected socket; no more than the bytes that wait where it is none of TCP.
LaneLoad lane_load(int fd);

// Bytes of `rest_bytes` for each lane: those by which it is through when all are, as far as their rates are known
// (water-filling over the times that their queues take). A lane whose queue alone takes longer gets none.
std::vector<double> lane_shares(double rest_bytes, std::span<const LaneLoad> lanes);

}  // namespace ringtune
