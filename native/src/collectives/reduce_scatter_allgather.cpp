// SPDX-License-Identifier: Apache-2.0
// Allreduce through cache-sized stages in shared memory.
//
// A message is cut into chunks, a chunk into one block per rank. Per chunk: every rank copies its chunk into its own
// stage (stage); each rank reduces its block over all stages, in place in its own stage (reduce-scatter); every rank
// copies the reduced blocks out of their owners' stages (allgather). Chunk i + 1 is staged before chunk i is waited
// for, so that a rank that arrives a little late costs its peers nothing.
#include <algorithm>
#include <vector>

#include "collectives/allreduce.h"
#include "collectives/reduce_kernels.h"

namespace ringtune {
namespace {

class Pipeline {
 public:
  explicit Pipeline(const AllreduceTask& task)
      : task_(task),
        stage_(task.stage),
        chunks_(chunk_count(task.data.bytes(), task.chunk_bytes)),
        sources_(static_cast<size_t>(task.stage.world_size())) {}

  Status run() {
    if (Status s = stage_.begin(task_.chunk_bytes, chunks_); !s.ok()) return s;
    if (Status s = copy_to_stage(0); !s.ok()) return s;
    for (uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      if (chunk + 1 < chunks_) {
        if (Status s = copy_to_stage(chunk + 1); !s.ok()) return s;
      }
      if (Status s = reduce_own_block(chunk); !s.ok()) return s;
      if (Status s = copy_from_stages(chunk); !s.ok()) return s;
    }
    stage_.end();
    return Status::ok_status();
  }

 private:
  struct Block {
    size_t offset;
    size_t bytes;
  };

  size_t offset(uint64_t chunk) const { return chunk * task_.chunk_bytes; }
  size_t bytes(uint64_t chunk) const { return std::min(task_.chunk_bytes, task_.data.bytes() - offset(chunk)); }

  // Whole cache lines, so that two ranks never write to one.
  Block block(uint64_t chunk, int rank) const {
    const size_t total = bytes(chunk);
    const auto ranks = static_cast<size_t>(stage_.world_size());
    const size_t share = round_up((total + ranks - 1) / ranks, kCacheLine);
    const size_t begin = std::min(total, share * static_cast<size_t>(rank));
    return {begin, std::min(share, total - begin)};
  }

  Status copy_to_stage(uint64_t chunk) {
    if (Status s = stage_.reserve(chunk); !s.ok()) return s;
    task_.data.copy_in(offset(chunk), stage_.slot(stage_.rank(), chunk), bytes(chunk));
    stage_.publish(Phase::kStaged, chunk);
    return Status::ok_status();
  }

  Status reduce_own_block(uint64_t chunk) {
    if (Status s = stage_.wait_for_all(Phase::kStaged, chunk); !s.ok()) return s;
    const Block own = block(chunk, stage_.rank());
    for (int rank = 0; rank < stage_.world_size(); ++rank) {
      sources_[static_cast<size_t>(rank)] = stage_.slot(rank, chunk) + own.offset;
    }
    std::byte* target = stage_.slot(stage_.rank(), chunk) + own.offset;
    reduce_in_rank_order(task_.dtype, task_.op, sources_, target, own.bytes / element_bytes(task_.dtype));
    stage_.publish(Phase::kReduced, chunk);
    return Status::ok_status();
  }

  Status copy_from_stages(uint64_t chunk) {
    for (int step = 0; step < stage_.world_size(); ++step) {
      const int owner = (stage_.rank() + step) % stage_.world_size();  // the own block is there already
      if (Status s = stage_.wait_for(owner, Phase::kReduced, chunk); !s.ok()) return s;
      const Block reduced = block(chunk, owner);
      task_.data.copy_out(offset(chunk) + reduced.offset, stage_.slot(owner, chunk) + reduced.offset, reduced.bytes);
    }
    stage_.publish(Phase::kDrained, chunk);
    return Status::ok_status();
  }

  const AllreduceTask& task_;
  Stage& stage_;
  uint64_t chunks_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

Status reduce_scatter_allgather(const AllreduceTask& task) { return Pipeline(task).run(); }

}  // namespace ringtune
