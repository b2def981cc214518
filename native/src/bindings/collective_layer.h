// SPDX-License-Identifier: Apache-2.0
// One rank's collectives over its host's shared memory, with no engine above them: `ringtune bench` times them as
// "collective".
#pragma once

#include <cstddef>
#include <memory>

#include "base/dtype.h"
#include "base/status.h"
#include "transport/layout.h"
#include "transport/shm/arena.h"
#include "transport/shm/stage.h"

namespace ringtune {

class CollectiveLayer {
 public:
  CollectiveLayer(std::shared_ptr<Segment> segment, int rank, int world_size, double timeout_s);

  // Memory of this rank that all ranks reach where it is; equal sequences of calls place it alike.
  Status allocate_registered(size_t bytes, std::shared_ptr<std::byte>& memory);
  // Sums elements over all ranks, in place, `calls` times, as the default config has it done.
  Status allreduce(std::byte* data, size_t elements, DataType dtype, int calls);

  LapTimes& laps() { return laps_; }

 private:
  Layout layout_;
  LapTimes laps_;
  std::shared_ptr<Arenas> arenas_;
  std::shared_ptr<Arena> arena_;  // null where the address space is limited
  Stage stage_;
};

}  // namespace ringtune
