// SPDX-License-Identifier: Apache-2.0
// One rank's collectives over its host's shared memory, with no engine above them: what `ringtune bench` times as
// "collective".
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "transport/layout.h"
#include "transport/shm/stage.h"

namespace ringtune {

class CollectiveLayer {
 public:
  CollectiveLayer(std::shared_ptr<Segment> segment, int rank, int world_size, double timeout_s);

  // Sums float32 elements over all ranks, in place, `calls` times, as the default config has it done.
  Status allreduce(float* data, size_t elements, int calls);

  LapTimes& laps() { return laps_; }

 private:
  Layout layout_;
  LapTimes laps_;
  Stage stage_;
};

}  // namespace ringtune
