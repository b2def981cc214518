// SPDX-License-Identifier: Apache-2.0
#include "collectives/alltoall.h"

#include <algorithm>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/gather_list.h"
#include "collectives/host_movement.h"
#include "collectives/link_movement.h"
#include "collectives/message_sizes.h"
#include "collectives/row_exchange.h"
#include "collectives/staged_pipeline.h"

namespace ringtune {
namespace {

// All ranks' splits.
class SplitTable {
 public:
  Status gather(const AlltoallTask& task) {
    ranks_ = task.splits.size();
    return gather_numbers(task.context, task.splits, rows_, task.chunk_bytes);
  }
  int64_t rows(size_t from, size_t to) const { return rows_[from * ranks_ + to]; }
  size_t largest() const { return static_cast<size_t>(*std::ranges::max_element(rows_)); }

 private:
  size_t ranks_ = 0;
  std::vector<int64_t> rows_;
};

// Through shared memory: a rank stages its rows for the next rank, for the one after that, and so on, one behind the
// other, so that at any time the ranks read from different stages. It copies its rows for itself.
class HostAlltoall {
 public:
  HostAlltoall(const AlltoallTask& task, const SplitTable& splits, std::span<const ByteSpan> outgoing,
               std::span<const MutableByteSpan> arriving)
      : task_(task), splits_(splits), arriving_(arriving), ranks_(arriving.size()) {
    for (size_t distance = 1; distance < ranks_; ++distance) {
      const ByteSpan& rows = outgoing[(rank() + distance) % ranks_];
      staged_.add(rows.data(), nullptr, rows.size());
    }
    for (size_t from = 0; from < ranks_; ++from) {
      wanted_from_.push_back(staged_before(from, (rank() + ranks_ - from) % ranks_));
    }
  }

  Status run() {
    Stage& stage = task_.context.stage;
    const auto fill = [this](uint64_t chunk, std::byte* slot) {
      const ByteRange range = chunk_range(staged_.bytes(), task_.chunk_bytes, chunk);
      staged_.copy_in(range.offset, slot, range.bytes);
    };
    const auto take = [this](uint64_t chunk) {
      for (size_t distance = 1; distance < ranks_; ++distance) {
        if (Status s = read_from((rank() + ranks_ - distance) % ranks_, chunk); !s.ok()) return s;
      }
      return Status::ok_status();
    };
    return run_staged(stage, task_.chunk_bytes, chunk_count(largest_staged_bytes(), task_.chunk_bytes), fill, take);
  }

 private:
  size_t rank() const { return static_cast<size_t>(task_.context.rank()); }
  size_t bytes(size_t from, size_t to) const { return static_cast<size_t>(splits_.rows(from, to)) * task_.row_bytes; }

  // Bytes that a rank stages before the rows for the rank `distance` further.
  size_t staged_before(size_t from, size_t distance) const {
    size_t before = 0;
    for (size_t nearer = 1; nearer < distance; ++nearer) {
      before += bytes(from, (from + nearer) % ranks_);
    }
    return before;
  }

  size_t largest_staged_bytes() const {
    size_t largest = 0;
    for (size_t from = 0; from < ranks_; ++from) {
      largest = std::max(largest, staged_before(from, ranks_));
    }
    return largest;
  }

  // The rows for this rank that a rank's chunk holds.
  Status read_from(size_t from, uint64_t chunk) {
    const size_t wanted_begin = wanted_from_[from];
    const size_t chunk_begin = chunk * task_.chunk_bytes;
    const size_t begin = std::max(wanted_begin, chunk_begin);
    const size_t end = std::min(wanted_begin + arriving_[from].size(), chunk_begin + task_.chunk_bytes);
    if (begin >= end) {
      return Status::ok_status();
    }
    const int source = static_cast<int>(from);
    Stage& stage = task_.context.stage;
    if (Status s = stage.wait_for(source, Phase::kStaged, chunk); !s.ok()) return s;
    copy_bytes(arriving_[from].data() + (begin - wanted_begin), stage.slot(source, chunk) + (begin - chunk_begin),
               end - begin);
    return Status::ok_status();
  }

  const AlltoallTask& task_;
  const SplitTable& splits_;
  std::span<const MutableByteSpan> arriving_;
  size_t ranks_;
  GatherList staged_;
  std::vector<size_t> wanted_from_;  // offset of this rank's rows in the staged bytes of each rank
};

}  // namespace

Status alltoall(const AlltoallTask& task, Gathered& result) {
  const auto own = static_cast<size_t>(task.context.rank());
  SplitTable splits;
  if (Status s = splits.gather(task); !s.ok()) return s;
  std::vector<ByteSpan> outgoing;
  size_t offset = 0;
  for (size_t rank = 0; rank < task.splits.size(); ++rank) {
    outgoing.emplace_back(task.input + offset, static_cast<size_t>(task.splits[rank]) * task.row_bytes);
    offset += outgoing.back().size();
    result.rows.push_back(splits.rows(rank, own));
  }
  std::vector<MutableByteSpan> arriving;
  if (Status s = allocate_rows(result, task.row_bytes, arriving); !s.ok()) return s;
  copy_bytes(arriving[own].data(), outgoing[own].data(), outgoing[own].size());
  if (task.context.is_one_host()) {
    return HostAlltoall(task, splits, outgoing, arriving).run();
  }
  const auto bytes_between = [&](int from, int to) {
    return static_cast<size_t>(splits.rows(static_cast<size_t>(from), static_cast<size_t>(to))) * task.row_bytes;
  };
  return task.has_costly_messages && splits.largest() * task.row_bytes <= kMaxForwardedBytes
             ? exchange_by_way_of_others(task.context, outgoing, arriving, bytes_between)
             : exchange_with_all(task.context, outgoing, arriving);
}

}  // namespace ringtune
