// SPDX-License-Identifier: Apache-2.0
// One event of a trace as the communication thread notes it, and the ring in which it travels to the writer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace ringtune {

// A row of the trace: one per tensor name.
using TrackId = uint32_t;
inline constexpr TrackId kNoTrack = 0;

struct TraceRecord {
  enum class Kind : uint8_t { kNegotiate, kBegin, kEnd, kCycle };

  int64_t time_ns = 0;  // steady clock
  uint64_t number = 0;  // bytes; of kCycle the round
  std::string_view operation = {};
  std::string_view algorithm = {};
  TrackId track = kNoTrack;
  uint32_t tensors = 0;
  Kind kind = Kind::kCycle;
};
static_assert(sizeof(TraceRecord) == 64, "a record is one cache line");

// Lock-free, for one thread that puts and one that takes.
class TraceRing {
 public:
  // 4 MiB: the records of 500 tensors in 43 steps.
  static constexpr uint64_t kCapacity = 1 << 16;

  // False where the ring is full.
  bool put(const TraceRecord& record) {
    const uint64_t written = written_.load(std::memory_order_relaxed);
    if (written - read_seen_ == kCapacity) {
      read_seen_ = read_.load(std::memory_order_acquire);
      if (written - read_seen_ == kCapacity) {
        return false;
      }
    }
    records_[written % kCapacity] = record;
    written_.store(written + 1, std::memory_order_release);
    return true;
  }

  // The oldest record; false where there is none.
  bool take(TraceRecord& record) {
    const uint64_t read = read_.load(std::memory_order_relaxed);
    if (read == written_.load(std::memory_order_acquire)) {
      return false;
    }
    record = records_[read % kCapacity];
    read_.store(read + 1, std::memory_order_release);
    return true;
  }

  // The taking side drops all records.
  void clear() { read_.store(written_.load(std::memory_order_acquire), std::memory_order_release); }

 private:
  // Each side writes in a line of its own, so that the putting thread does not wait for the taking one's cache.
  static constexpr size_t kCacheLineBytes = 64;

  std::unique_ptr<TraceRecord[]> records_ = std::make_unique<TraceRecord[]>(kCapacity);
  alignas(kCacheLineBytes) std::atomic<uint64_t> written_{0};
  uint64_t read_seen_ = 0;  // the putting side's last look at read_
  alignas(kCacheLineBytes) std::atomic<uint64_t> read_{0};
};

}  // namespace ringtune
