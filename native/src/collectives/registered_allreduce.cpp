// SPDX-License-Identifier: Apache-2.0
// Allreduce of tensors that lie in the ranks' arenas, without stages.
//
// Every rank owns one block of the message. It reduces the block straight from the memory of all ranks into its own,
// tile by tile, and copies each tile over the others' while it is still in its cache. Two synchronizations: no rank
// reads before every rank's tensors are complete, and none goes on before every block is in place.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/allreduce.h"

namespace ringtune {
namespace {

// A tile of two ranks, read and written, stays in the first-level cache.
constexpr size_t kTileBytes = 8 * kKiB;

class RegisteredAllreduce {
 public:
  explicit RegisteredAllreduce(const AllreduceTask& task)
      : task_(task),
        own_rank_(task.context.stage.local_rank()),
        images_(static_cast<size_t>(task.context.stage.local_size())) {}

  void reduce_own_block() {
    const ByteRange block = block_range(task_.data.bytes(), static_cast<int>(images_.size()), own_rank_);
    const auto reduce_piece = [this](const std::byte* /*input*/, std::byte* piece, size_t /*offset*/, size_t bytes) {
      for (size_t done = 0; done < bytes; done += kTileBytes) {
        reduce_tile(piece + done, std::min(kTileBytes, bytes - done));
      }
    };
    task_.data.for_pieces(block.offset, block.bytes, reduce_piece);
  }

 private:
  void reduce_tile(std::byte* own, size_t bytes) {
    const Arenas& arenas = *task_.context.arenas;
    const auto offset = own - arenas.arena(own_rank_);
    for (size_t rank = 0; rank < images_.size(); ++rank) {
      images_[rank] = arenas.arena(static_cast<int>(rank)) + offset;
    }
    std::byte* const neighbour = images_[(static_cast<size_t>(own_rank_) + 1) % images_.size()];
    const ReductionTargets targets{own, neighbour == own ? nullptr : neighbour};
    reduce_in_rank_order(task_.reduction, images_, targets, bytes / element_bytes(task_.reduction.dtype));
    for (std::byte* image : images_) {
      if (image != own && image != neighbour) {
        std::memcpy(image, own, bytes);
      }
    }
  }

  const AllreduceTask& task_;
  int own_rank_;
  std::vector<std::byte*> images_;  // of a tile, in every rank's arena
};

}  // namespace

Status registered_allreduce(const AllreduceTask& task) {
  Stage& stage = task.context.stage;
  if (Status s = stage.begin(task.chunk_bytes, 1); !s.ok()) return s;
  stage.publish(Phase::kStaged, 0);
  if (Status s = stage.wait_for_all(Phase::kStaged, 0); !s.ok()) return s;
  RegisteredAllreduce(task).reduce_own_block();
  stage.publish(Phase::kReduced, 0);
  if (Status s = stage.wait_for_all(Phase::kReduced, 0); !s.ok()) return s;
  stage.end();
  return Status::ok_status();
}

}  // namespace ringtune
