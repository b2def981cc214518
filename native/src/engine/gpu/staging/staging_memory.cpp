// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/staging_memory.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "transport/shm/atomics.h"

namespace ringtune {
namespace {

// A slab is as large as all before it, within these bounds: few calls of the driver, and little memory for small
// models.
constexpr size_t kMinSlabBytes = size_t{1} << 20;
constexpr size_t kMaxSlabBytes = size_t{256} << 20;
// Names that do not come again must not fill the arena for good.
constexpr size_t kMaxPlaces = 65536;
// Limit of idle memory that the pool keeps for the next tensors.
constexpr size_t kMaxIdleBytes = size_t{256} << 20;
constexpr size_t kMinBlockBytes = 4096;
// A block of more than twice a tensor's size is left to larger ones.
constexpr size_t kMaxBlockRatio = 2;

// Powers of two, and halves between them: tensors of about one size share blocks.
size_t block_bytes(size_t bytes) {
  size_t rounded = kMinBlockBytes;
  while (rounded < bytes) {
    rounded *= 2;
  }
  return rounded * 3 / 4 >= bytes && rounded > kMinBlockBytes ? rounded * 3 / 4 : rounded;
}

}  // namespace

StagingMemory::~StagingMemory() {
  for (const Slab& slab : slabs_) {
    const Device::Scope scope(*slab.pinned_through);
    slab.pinned_through->unpin(slab.pinned);
  }
  for (const auto& [block, owner] : pool_) {
    free_memory(*block);
  }
}

StagingBlock* StagingMemory::take(const std::string& name, size_t bytes, bool is_kept, Device& device) {
  const std::lock_guard lock(mutex_);
  StagingBlock* block = is_kept ? take_place(name, bytes, device) : nullptr;
  return block != nullptr ? block : take_from_pool(bytes, device);
}

void StagingMemory::put_back(StagingBlock* block, std::shared_ptr<DeviceEvent> last_use) {
  const std::lock_guard lock(mutex_);
  block->is_taken = false;
  block->last_use = std::move(last_use);
  if (block->is_place) {
    return;
  }
  idle_.emplace(block->bytes, block);
  idle_bytes_ += block->bytes;
}

// Null where the name has no place: it is taken, too small, or there is none to be had.
StagingBlock* StagingMemory::take_place(const std::string& name, size_t bytes, Device& device) {
  const auto found = places_.find(name);
  if (found != places_.end()) {
    StagingBlock& place = found->second;
    const bool is_fitting = !place.is_taken && bytes <= place.bytes;
    place.is_taken |= is_fitting;
    return is_fitting ? &place : nullptr;
  }
  const size_t size = round_up(bytes, kCacheLine);
  if (arena_ == nullptr || !can_pin_arena_ || places_.size() >= kMaxPlaces) {
    return nullptr;
  }
  if ((slabs_.empty() || slabs_.back().bytes - slabs_.back().used_bytes < size) && !add_slab(size, device)) {
    return nullptr;
  }
  Slab& slab = slabs_.back();
  StagingBlock place;
  place.memory = slab.begin + slab.used_bytes;
  place.bytes = size;
  place.is_place = place.is_taken = true;
  slab.used_bytes += size;
  return &places_.emplace(name, std::move(place)).first->second;
}

// False for good once there is no more: a driver that cannot pin it, or an arena that is full.
bool StagingMemory::add_slab(size_t bytes, Device& device) {
  Slab slab;
  slab.bytes = round_up(std::max(bytes, std::clamp(slab_bytes_, kMinSlabBytes, kMaxSlabBytes)), kPage);
  // Arenas begin at different places within a page. The slabs begin at one offset all the same, with a page of room
  // around them: pages are pinned as a whole, and only once.
  if (!arena_->allocate(slab.bytes + 2 * kPage, slab.memory).ok()) {
    can_pin_arena_ = false;
    return false;
  }
  slab.begin = slab.memory.get() + kPage;
  const size_t page_offset = reinterpret_cast<uintptr_t>(slab.begin) % kPage;
  slab.pinned = slab.begin - page_offset;
  if (!device.pin(slab.pinned, round_up(page_offset + slab.bytes, kPage)).ok()) {
    can_pin_arena_ = false;
    return false;
  }
  slab.pinned_through = device.shared_from_this();
  slab_bytes_ += slab.bytes;
  slabs_.push_back(std::move(slab));
  return true;
}

StagingBlock* StagingMemory::take_from_pool(size_t bytes, Device& device) {
  const size_t size = block_bytes(bytes);
  const auto fitting = idle_.lower_bound(size);
  if (fitting == idle_.end() || fitting->first > kMaxBlockRatio * size) {
    return allocate(size, device);
  }
  StagingBlock* block = fitting->second;
  idle_.erase(fitting);
  idle_bytes_ -= block->bytes;
  block->is_taken = true;
  return block;
}

StagingBlock* StagingMemory::allocate(size_t bytes, Device& device) {
  trim_pool();
  auto block = std::make_unique<StagingBlock>();
  block->bytes = bytes;
  block->is_taken = true;
  if (device.allocate_pinned(bytes, block->memory).ok()) {
    block->pinned_through = device.shared_from_this();
  } else {
    block->memory = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kCacheLine}, std::nothrow));
  }
  if (block->memory == nullptr) {
    return nullptr;
  }
  StagingBlock* const made = block.get();
  pool_.emplace(made, std::move(block));
  return made;
}

// Frees the largest idle blocks whose last use is over. Only where much is idle: the driver may wait for the GPU here.
void StagingMemory::trim_pool() {
  for (auto largest = idle_.end(); idle_bytes_ > kMaxIdleBytes && largest != idle_.begin();) {
    --largest;
    StagingBlock* const block = largest->second;
    bool is_over = true;
    if (block->last_use != nullptr && !block->last_use->device().is_complete(*block->last_use, is_over).ok()) {
      return;
    }
    if (is_over) {
      free_memory(*block);
      idle_bytes_ -= block->bytes;
      pool_.erase(block);
      largest = idle_.erase(largest);
    }
  }
}

void StagingMemory::free_memory(const StagingBlock& block) {
  if (block.pinned_through == nullptr) {
    ::operator delete(block.memory, std::align_val_t{kCacheLine});
    return;
  }
  const Device::Scope scope(*block.pinned_through);
  block.pinned_through->free_pinned(block.memory);
}

}  // namespace ringtune
