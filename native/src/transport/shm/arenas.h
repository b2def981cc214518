// SPDX-License-Identifier: Apache-2.0
// One arena per rank of a host: address space behind the segment's end, in the same memfd, that is only reserved until
// its owner takes pages of it. Every rank of the host reads and writes all of them: tensors that lie there are reduced
// where they are.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/status.h"
#include "transport/shm/memory_budget.h"

namespace ringtune {

// Address space, not memory: far more than the gradients of a rank will need.
inline constexpr size_t kMaxArenaBytes = size_t{16} << 30;

class Arenas {
 public:
  // Size of the largest arenas that this process may make behind `segment_bytes` of a file; 0 if none.
  static size_t largest_bytes(size_t segment_bytes, int local_size);
  // Bytes that arenas of that size add to the file.
  static size_t file_bytes(size_t arena_bytes, int local_size);

  // Maps them, null where the address space is limited. Forked children see the memory too, for a child may read its
  // parent's tensors.
  static std::shared_ptr<Arenas> map(int fd, size_t segment_bytes, size_t arena_bytes, int local_size);
  ~Arenas();
  Arenas(const Arenas&) = delete;
  Arenas& operator=(const Arenas&) = delete;

  size_t arena_bytes() const { return arena_bytes_; }
  // Arena of a local rank; begins at a cache line.
  std::byte* arena(int rank) const;

  // Takes the memory of [first, last) of a rank's arena, now: a page that is missing later would be a SIGBUS. The ranks
  // of a host ask one after the other, so that each sees the memory that the others have taken.
  Status commit(int rank, size_t first, size_t last, const MemoryBudget& budget);
  // No more memory will be taken, as after the engine's end and in a forked child; memory in use stays. Idempotent.
  void seal();

 private:
  Arenas(std::byte* base, int fd, size_t file_offset, size_t arena_bytes, int local_size)
      : base_(base), fd_(fd), file_offset_(file_offset), arena_bytes_(arena_bytes), local_size_(local_size) {}

  std::byte* base_;
  std::atomic<int> fd_;  // -1 once sealed
  size_t file_offset_;
  size_t arena_bytes_;
  int local_size_;
};

}  // namespace ringtune
