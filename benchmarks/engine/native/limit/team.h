// SPDX-License-Identifier: Apache-2.0
// The shared memory of the limit's processes: counters, stages and buffers in one mapping; waiting for each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sched.h>
#include <sys/mman.h>

namespace limit {

inline constexpr size_t kPage = 4096;
inline constexpr size_t kLine = 64;
// Buffers whose addresses differ by a multiple of a large power of two evict each other from the caches: the same loop
// runs seven times slower. An odd number of pages and lines staggers them.
inline constexpr size_t kStagger = 3 * kPage + 5 * kLine;

// The most that goes through a stage at once.
inline constexpr size_t kSlotBytes = 512 << 10;
// A rank may be two chunks ahead of its peers.
inline constexpr uint64_t kSlots = 3;

// Two are written by different ranks, and prefetched in pairs: each has two cache lines to itself.
struct alignas(2 * kLine) Counter {
  std::atomic<uint64_t> value{0};
};

// One writer each, the rank; counts go on through all calls.
struct RankCounters {
  Counter arrived;  // at barriers
  Counter staged;   // chunks that lie in this rank's stage
  Counter reduced;  // chunks of which this rank's block is reduced
};

// Spins while the peer is surely running, then lets it run: ranks may outnumber the cores.
inline void wait_until(const Counter& counter, uint64_t value) {
  constexpr int kSpins = 200;
  for (int look = 0; counter.value.load(std::memory_order_acquire) < value; ++look) {
    if (look >= kSpins) {
      sched_yield();
      continue;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

inline void publish(Counter& counter, uint64_t value) { counter.value.store(value, std::memory_order_release); }

inline std::byte* map_memory(size_t bytes, int visibility) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, visibility | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("limit: cannot map memory");
    std::exit(1);
  }
  return static_cast<std::byte*>(memory);
}

constexpr size_t in_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Memory that the processes share: counters, a number, stages, and the buffers of the registered way.
class Team {
 public:
  Team(int ranks, size_t max_bytes)
      : ranks_(ranks),
        buffer_stride_(in_pages(max_bytes) + kStagger),
        counters_bytes_(in_pages(sizeof(Counter) + sizeof(RankCounters) * static_cast<size_t>(ranks))),
        base_(map_memory(counters_bytes_ + (kStageStride + buffer_stride_) * static_cast<size_t>(ranks), MAP_SHARED)) {}

  void become(int rank) { rank_ = rank; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  RankCounters& counters(int rank) const { return reinterpret_cast<RankCounters*>(base_ + sizeof(Counter))[rank]; }
  RankCounters& own() const { return counters(rank_); }

  // Slots of a rank: its contribution, which peers reduce, and the block that it has reduced.
  float* contribution(int rank, uint64_t chunk) const { return reinterpret_cast<float*>(slot(rank, chunk)); }
  float* result(int rank, uint64_t chunk) const { return reinterpret_cast<float*>(slot(rank, chunk) + kSlotBytes); }
  float* buffer(int rank) const {
    std::byte* buffers = base_ + counters_bytes_ + kStageStride * static_cast<size_t>(ranks_);
    return reinterpret_cast<float*>(buffers + buffer_stride_ * static_cast<size_t>(rank));
  }

  void wait_for_all(Counter RankCounters::*counter, uint64_t value) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      wait_until(counters(rank).*counter, value);
    }
  }
  // The number of the first of as many chunks; all ranks take the same.
  uint64_t take_chunks(uint64_t chunks) { return std::exchange(chunks_, chunks_ + chunks); }
  void barrier() {
    publish(own().arrived, ++barriers_);
    wait_for_all(&RankCounters::arrived, barriers_);
  }
  long agree(long number) {
    auto& agreed = reinterpret_cast<Counter*>(base_)->value;
    if (rank_ == 0) {
      agreed = static_cast<uint64_t>(number);
    }
    barrier();
    const auto result = static_cast<long>(agreed);
    barrier();
    return result;
  }

 private:
  static constexpr size_t kSlotStride = kSlotBytes + kSlotBytes / 2 + 7 * kLine;  // at most half of a chunk is a block
  static constexpr size_t kStageStride = kSlots * in_pages(kSlotStride) + kStagger;

  std::byte* slot(int rank, uint64_t chunk) const {
    return base_ + counters_bytes_ + kStageStride * static_cast<size_t>(rank) + chunk % kSlots * kSlotStride;
  }

  int ranks_;
  int rank_ = 0;
  uint64_t barriers_ = 0;
  uint64_t chunks_ = 0;
  size_t buffer_stride_;
  size_t counters_bytes_;
  std::byte* base_;
};

}  // namespace limit
