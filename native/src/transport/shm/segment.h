// SPDX-License-Identifier: Apache-2.0
// The one shared-memory segment of a host: a memfd, so that no file is left behind whatever kills the ranks.
//
// Layout: header | one RankBlock per rank | response ring | request rings | stages | arenas. All but the arenas is
// allocated from the beginning. Ranks that are threads of one process share one Segment object and so one mapping; a
// sanitizer does not see races between two mappings.
#pragma once

#include <memory>

#include "base/status.h"
#include "transport/shm/arenas.h"
#include "transport/shm/atomics.h"
#include "transport/shm/byte_ring.h"
#include "transport/shm/doorbell.h"

namespace ringtune {

inline constexpr int kMaxRanksPerHost = 256;
inline constexpr size_t kFailureTextBytes = 2048;

// 1 MiB holds the full requests of about 10,000 tensors; a ring that is full only delays.
inline constexpr size_t kRequestRingBytes = 1 << 20;
inline constexpr size_t kResponseRingBytes = 4 << 20;
// Two slots of the largest chunk.
inline constexpr size_t kStageBytes = 8 << 20;
// Size of a rank's post, for all to read; there are two such slots.
inline constexpr size_t kPostBytes = 256 << 10;
// Stages whose addresses differ by a multiple of a large power of two evict each other from the caches: the same loop
// ran seven times slower. An odd number of pages and cache lines staggers them.
inline constexpr size_t kStageStagger = kPage + 5 * kCacheLine;

struct SegmentHeader {
  uint64_t magic;
  uint64_t arena_bytes;  // per rank
  uint32_t local_size;
  // The failure record: 0 none, 1 being written, 2 readable.
  SharedU32 failure_state;
  int32_t failure_code;
  int32_t culprit_rank;
  char failure_text[kFailureTextBytes];
  SharedU32 has_coordinator_departed;  // set by the leader, where rank 0 is on another host
};

// A rank's progress, for its peers while data moves; each counter has one writer.
struct RankBlock {
  Doorbell doorbell;
  alignas(kCacheLine) SharedU64 staged;   // chunks copied into this rank's stage
  alignas(kCacheLine) SharedU64 reduced;  // chunks of which this rank's block is reduced
  alignas(kCacheLine) SharedU64 drained;  // chunks this rank has read and needs no more
  alignas(kCacheLine) SharedU64 posted;   // messages posted
  alignas(kCacheLine) SharedU32 has_departed;
};

class Segment {
 public:
  // A new memfd for the ranks of one host, fully allocated but for the arenas; the descriptor is the caller's.
  static Status create(int local_size, int& fd);
  // Maps it (hidden from forked children, but for the arenas). Does not take the descriptor.
  static Status map(int fd, int local_size, std::shared_ptr<Segment>& segment);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(base_); }
  // Ranks are local ranks.
  RankBlock& block(int rank);
  ByteRing request_ring(int rank);
  ByteRing response_ring();
  std::byte* stage(int rank);
  // The slot of the message with this number.
  std::byte* post(int rank, uint64_t number);
  // Null where this process has no room for them.
  const std::shared_ptr<Arenas>& arenas() const { return arenas_; }
  int local_size() const { return local_size_; }

  // Without the arenas.
  static size_t total_bytes(int local_size);

 private:
  Segment(std::byte* base, int local_size) : base_(base), local_size_(local_size) {}

  std::byte* base_;
  int local_size_;
  std::shared_ptr<Arenas> arenas_;
};

}  // namespace ringtune
