// SPDX-License-Identifier: Apache-2.0
// One operation through the stages of a host. Chunk i + 1 is staged before chunk i is waited for, so that a rank that
// arrives a little late costs its peers no time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "transport/shm/stage.h"

namespace ringtune {

// `fill(chunk, slot)` copies this rank's part of a chunk into its own slot; `take(chunk)` waits for its bytes in the
// peers' slots, reads them, and returns a Status. Every rank of the host calls it with the same sizes.
template <typename Fill, typename Take>
Status run_staged(Stage& stage, size_t chunk_bytes, uint64_t chunks, Fill fill, Take take) {
  if (Status s = stage.begin(chunk_bytes, chunks); !s.ok()) return s;
  for (uint64_t staged = 0, taken = 0; taken < chunks; ++taken) {
    for (; staged < std::min(taken + 2, chunks); ++staged) {
      if (Status s = stage.reserve(staged); !s.ok()) return s;
      fill(staged, stage.slot(stage.local_rank(), staged));
      stage.publish(Phase::kStaged, staged);
    }
    if (Status s = take(taken); !s.ok()) return s;
    stage.publish(Phase::kDrained, taken);
  }
  stage.end();
  return Status::ok_status();
}

}  // namespace ringtune
