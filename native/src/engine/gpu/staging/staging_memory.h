// SPDX-License-Identifier: Apache-2.0
// Host memory for tensors of GPUs while the engine has them: pinned where the driver can do that, so that copies do not
// make anybody wait.
//
// A gradient keeps its place in the rank's arena from step to step. Where ranks submit the same gradients in the same
// order, the places agree, and the gradients are reduced where they are. All other tensors, and all in a world without
// arenas, take turns in a pool.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "transport/shm/arena.h"

namespace ringtune {

// Memory for one tensor at a time.
struct StagingBlock {
  std::byte* memory = nullptr;
  size_t bytes = 0;
  bool is_place = false;  // in the arena
  bool is_taken = false;
  std::shared_ptr<DeviceEvent> last_use;   // a copy that may still be under way; null: none
  std::shared_ptr<Device> pinned_through;  // set by the pool; null where the memory is pageable
};

class StagingMemory {
 public:
  // `arena` is null where there is none.
  explicit StagingMemory(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  // No copy may be under way any more.
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // Any thread, in a scope of the device; null where the machine has no memory left. The block's last use is over, or
  // its next user has to wait for that. `is_kept`: the name comes again, with the same bytes.
  StagingBlock* take(const std::string& name, size_t bytes, bool is_kept, Device& device);
  // The block is free once `last_use` is complete.
  void put_back(StagingBlock* block, std::shared_ptr<DeviceEvent> last_use);

  // Offset of memory in the arena; kNotInArena for other memory.
  ArenaOffset offset_of(const StagingBlock& block, size_t bytes) const {
    return block.is_place ? arena_->offset_of(block.memory, bytes) : kNotInArena;
  }

 private:
  // A range of the arena that is pinned as a whole.
  struct Slab {
    std::shared_ptr<std::byte> memory;
    std::byte* begin = nullptr;
    size_t bytes = 0;
    size_t used_bytes = 0;
    std::byte* pinned = nullptr;  // the pages of all that
    std::shared_ptr<Device> pinned_through;
  };

  StagingBlock* take_place(const std::string& name, size_t bytes, Device& device);
  bool add_slab(size_t bytes, Device& device);
  StagingBlock* take_from_pool(size_t bytes, Device& device);
  StagingBlock* allocate(size_t bytes, Device& device);
  void trim_pool();
  static void free_memory(const StagingBlock& block);

  const std::shared_ptr<Arena> arena_;

  std::mutex mutex_;  // guards all below
  bool can_pin_arena_ = true;
  size_t slab_bytes_ = 0;  // sum of all slabs
  std::vector<Slab> slabs_;
  std::unordered_map<std::string, StagingBlock> places_;
  std::unordered_map<StagingBlock*, std::unique_ptr<StagingBlock>> pool_;  // taken and idle ones
  std::multimap<size_t, StagingBlock*> idle_;                              // size to block
  size_t idle_bytes_ = 0;
};

}  // namespace ringtune
