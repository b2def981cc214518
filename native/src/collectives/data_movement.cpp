// SPDX-License-Identifier: Apache-2.0
#include "collectives/data_movement.h"

#include <algorithm>
#include <cstring>

#include "collectives/allreduce.h"

namespace ringtune {
namespace {

struct Range {
  size_t offset;
  size_t bytes;
};

Range chunk_range(const MovementTask& task, uint64_t chunk) {
  const size_t offset = chunk * task.chunk_bytes;
  return {offset, std::min(task.chunk_bytes, task.bytes - offset)};
}

void copy_bytes(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes > 0 && target != source) {
    std::memcpy(target, source, bytes);
  }
}

Status copy_to_stage(const MovementTask& task, uint64_t chunk) {
  if (Status s = task.stage.reserve(chunk); !s.ok()) return s;
  const Range range = chunk_range(task, chunk);
  copy_bytes(task.stage.slot(task.stage.rank(), chunk), task.input + range.offset, range.bytes);
  task.stage.publish(Phase::kStaged, chunk);
  return Status::ok_status();
}

}  // namespace

Status broadcast(const MovementTask& task, int root_rank) {
  const uint64_t chunks = chunk_count(task.bytes, task.chunk_bytes);
  const bool is_root = task.stage.rank() == root_rank;
  if (Status s = task.stage.begin(task.chunk_bytes, chunks); !s.ok()) return s;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const Range range = chunk_range(task, chunk);
    if (is_root) {
      if (Status s = copy_to_stage(task, chunk); !s.ok()) return s;
      copy_bytes(task.output + range.offset, task.input + range.offset, range.bytes);
    } else {
      if (Status s = task.stage.wait_for(root_rank, Phase::kStaged, chunk); !s.ok()) return s;
      copy_bytes(task.output + range.offset, task.stage.slot(root_rank, chunk), range.bytes);
    }
    task.stage.publish(Phase::kDrained, chunk);
  }
  task.stage.end();
  return Status::ok_status();
}

Status allgather(const MovementTask& task) {
  const uint64_t chunks = chunk_count(task.bytes, task.chunk_bytes);
  if (Status s = task.stage.begin(task.chunk_bytes, chunks); !s.ok()) return s;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    if (Status s = copy_to_stage(task, chunk); !s.ok()) return s;
    const Range range = chunk_range(task, chunk);
    for (int rank = 0; rank < task.stage.world_size(); ++rank) {
      if (Status s = task.stage.wait_for(rank, Phase::kStaged, chunk); !s.ok()) return s;
      copy_bytes(task.output + static_cast<size_t>(rank) * task.bytes + range.offset, task.stage.slot(rank, chunk),
                 range.bytes);
    }
    task.stage.publish(Phase::kDrained, chunk);
  }
  task.stage.end();
  return Status::ok_status();
}

Status barrier(Stage& stage, size_t chunk_bytes) {
  if (Status s = stage.begin(chunk_bytes, 1); !s.ok()) return s;
  stage.publish(Phase::kStaged, 0);
  if (Status s = stage.wait_for_all(Phase::kStaged, 0); !s.ok()) return s;
  stage.end();
  return Status::ok_status();
}

}  // namespace ringtune
