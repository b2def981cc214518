// SPDX-License-Identifier: Apache-2.0
#include "engine/leader.h"

#include <string>

namespace ringtune {

Failure unreadable_request(int rank, size_t frame_bytes) {
  return {StatusCode::kPeerLostError, rank,
          "rank " + std::to_string(rank) + " sent a request that cannot be read (" + std::to_string(frame_bytes) +
              " bytes); all ranks must run one version"};
}

}  // namespace ringtune
