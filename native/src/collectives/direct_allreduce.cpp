// SPDX-License-Identifier: Apache-2.0
// Allreduce for small messages: every rank posts its own, reads all and reduces everything itself. One synchronization
// instead of two; the ranks' contributions are taken in rank order on every rank, so all get the same bits.
#include <algorithm>
#include <array>

#include "collectives/allreduce.h"

namespace ringtune {
namespace {

// Results of fused tensors pass through a buffer of this size on their way.
constexpr size_t kPassBytes = 4096;

class DirectAllreduce {
 public:
  explicit DirectAllreduce(const AllreduceTask& task) : task_(task), stage_(task.context.stage) {}

  Status run() {
    const uint64_t posts = chunk_count(task_.data.bytes(), kPostBytes);
    for (uint64_t post = 0; post < posts; ++post) {
      const ByteRange range = chunk_range(task_.data.bytes(), kPostBytes, post);
      task_.data.copy_in(range.offset, stage_.post_slot(stage_.local_rank()), range.bytes);
      if (Status s = stage_.exchange_posts(); !s.ok()) return s;
      take(range);
      stage_.end_post();
    }
    return Status::ok_status();
  }

 private:
  void take(const ByteRange& range) {
    if (std::byte* output = task_.data.contiguous_output(range.offset, range.bytes); output != nullptr) {
      reduce_posts(0, task_.data.contiguous_input(range.offset, range.bytes), output, range.bytes);
      return;
    }
    alignas(kCacheLine) std::array<std::byte, kPassBytes> reduced;
    for (size_t done = 0; done < range.bytes; done += kPassBytes) {
      const size_t bytes = std::min(kPassBytes, range.bytes - done);
      reduce_posts(done, nullptr, reduced.data(), bytes);
      task_.data.copy_out(range.offset + done, reduced.data(), bytes);
    }
  }

  // `own` is this rank's contribution where it lies, if in one piece: nearer than its post.
  void reduce_posts(size_t offset, const std::byte* own, std::byte* target, size_t bytes) {
    const auto ranks = static_cast<size_t>(stage_.local_size());
    for (size_t rank = 0; rank < ranks; ++rank) {
      sources_[rank] = stage_.post_slot(static_cast<int>(rank)) + offset;
    }
    if (own != nullptr) {
      sources_[static_cast<size_t>(stage_.local_rank())] = own;
    }
    const std::span<const std::byte* const> contributions(sources_.data(), ranks);
    reduce_in_rank_order(task_.reduction, contributions, target, bytes / element_bytes(task_.reduction.dtype));
  }

  const AllreduceTask& task_;
  Stage& stage_;
  std::array<const std::byte*, kMaxRanksPerHost> sources_;
};

}  // namespace

Status direct_allreduce(const AllreduceTask& task) { return DirectAllreduce(task).run(); }

}  // namespace ringtune
