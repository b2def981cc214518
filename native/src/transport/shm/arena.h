// SPDX-License-Identifier: Apache-2.0
// A rank's own arena: hands out memory and takes it back. Equal sequences of calls give equal offsets on every rank.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/arena_offset.h"
#include "base/status.h"
#include "transport/shm/arenas.h"

namespace ringtune {

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Made by std::make_shared: the memory that it hands out keeps it alive. The budget is there for tests.
  Arena(std::shared_ptr<Arenas> arenas, int local_rank, MemoryBudget budget = MemoryBudget())
      : arenas_(std::move(arenas)), local_rank_(local_rank), budget_(std::move(budget)) {}

  // Any thread: memory that begins at a cache line, of undefined content; it goes back with the last reference to it.
  Status allocate(size_t bytes, std::shared_ptr<std::byte>& memory);

  // Any thread: where a range lies in this arena, or kNotInArena. The memory after the range is no part of the answer.
  ArenaOffset offset_of(const std::byte* memory, size_t bytes) const;

 private:
  std::byte* begin() const { return arenas_->arena(local_rank_); }
  // The first range that is large enough, taken out; `committed_bytes_` where there is none.
  size_t find_place(size_t bytes);
  void put_back(size_t offset, size_t bytes);

  const std::shared_ptr<Arenas> arenas_;
  const int local_rank_;
  const MemoryBudget budget_;

  std::mutex mutex_;               // guards all below
  std::map<size_t, size_t> free_;  // bytes of the ranges that were given back, by offset; neighbours are joined
  size_t committed_bytes_ = 0;     // memory from the arena's begin that was ever handed out
};

}  // namespace ringtune
