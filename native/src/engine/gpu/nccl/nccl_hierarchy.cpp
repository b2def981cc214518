// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_hierarchy.h"

#include <algorithm>
#include <numeric>

#include "collectives/allreduce.h"
#include "collectives/element.h"
#include "engine/gpu/nccl/nccl_allreduce.h"
#include "engine/gpu/staging/device_wait.h"

namespace ringtune {
namespace {

// A piece on the network and one on the way from or to the GPU take about as long where the network is fast.
constexpr size_t kPieceBytes = kMiB;
// Blocks are multiples of it, so that kernels of NCCL read whole vectors.
constexpr uint64_t kBlockElements = 16;

uint64_t block_elements_of(uint64_t elements, const Layout& layout) {
  const auto owners = static_cast<uint64_t>(layout.smallest_local_size());
  const uint64_t even = (elements + owners - 1) / owners;
  return (even + kBlockElements - 1) / kBlockElements * kBlockElements;
}

cuda::DevicePointer pointer_of(const std::byte* memory) { return reinterpret_cast<cuda::DevicePointer>(memory); }

// Hosts as the ranks of a world: their messages go between the ranks of one local number.
class CounterpartLinks final : public Links {
 public:
  CounterpartLinks(Links& links, const Layout& layout) : links_(links), layout_(layout) {}

  Status begin(int to, ByteSpan out, int from, MutableByteSpan in) override {
    return links_.begin(counterpart(to), out, counterpart(from), in);
  }
  Status finish() override { return links_.finish(); }
  void give_up() override { links_.give_up(); }
  void abandon_after_fork() override { links_.abandon_after_fork(); }

 private:
  int counterpart(int host) const { return layout_.ranks_of(host)[static_cast<size_t>(layout_.local_rank())]; }

  Links& links_;
  const Layout& layout_;
};

// The hosts, as if each had one rank.
Layout layout_of_hosts(const Layout& layout) {
  std::vector<int> hosts(static_cast<size_t>(layout.host_count()));
  std::iota(hosts.begin(), hosts.end(), 0);
  return {layout.host(), std::move(hosts)};
}

// One group of `enqueue(owner, block)` for each owner's block.
Status run_per_owner(const NcclHierarchy::Task& task, size_t block_elements,
                     const std::function<Status(int, std::byte*)>& enqueue) {
  const size_t block_bytes = block_elements * element_bytes(task.across.dtype);
  const auto enqueue_all = [&] {
    Status status;
    for (int owner = 0; owner < task.context.layout.smallest_local_size() && status.ok(); ++owner) {
      status = enqueue(owner, task.buffer + static_cast<size_t>(owner) * block_bytes);
    }
    return status;
  };
  return task.local_ranks.run_group(enqueue_all, task.watch);
}

}  // namespace

NcclHierarchy::~NcclHierarchy() {
  if (pinned_ != nullptr) {
    const Device::Scope scope(*device_);
    device_->free_pinned(pinned_);
  }
}

bool NcclHierarchy::has_effect(const Layout& layout) {
  return layout.host_count() > 1 && layout.world_size() > layout.host_count();
}

uint64_t NcclHierarchy::room_elements(const Layout& layout) {
  return kBlockElements * static_cast<uint64_t>(layout.smallest_local_size());
}

Status NcclHierarchy::allreduce(const Task& task) {
  const Layout& layout = task.context.layout;
  const size_t block_elements = block_elements_of(task.elements, layout);
  if (Status s = reduce_to_owners(task, block_elements); !s.ok()) return s;
  if (layout.local_rank() < layout.smallest_local_size()) {
    if (Status s = reduce_across(task, block_elements); !s.ok()) return s;
  }
  return collect_blocks(task, block_elements);
}

Status NcclHierarchy::reduce_to_owners(const Task& task, size_t block_elements) const {
  return run_per_owner(task, block_elements, [&](int owner, std::byte* block) {
    return task.local_ranks.reduce(task.inside, {block, block, block_elements}, owner, stream_);
  });
}

Status NcclHierarchy::collect_blocks(const Task& task, size_t block_elements) const {
  const size_t block_bytes = block_elements * element_bytes(task.across.dtype);
  return run_per_owner(task, block_elements, [&](int owner, std::byte* block) {
    return task.local_ranks.broadcast({block, block, block_bytes}, owner, stream_);
  });
}

Status NcclHierarchy::copy_pieces(const std::byte* block, size_t bytes,
                                  std::vector<std::shared_ptr<DeviceEvent>>& copied) {
  for (size_t offset = 0; offset < bytes; offset += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, bytes - offset);
    if (Status s = device_->copy_to_host(pinned_ + offset, pointer_of(block + offset), count, stream_); !s.ok()) {
      return s;
    }
    if (Status s = device_->make_event(copied.emplace_back()); !s.ok()) return s;
    if (Status s = device_->record(*copied.back(), stream_); !s.ok()) return s;
  }
  return Status::ok_status();
}

Status NcclHierarchy::reduce_across(const Task& task, size_t block_elements) {
  const Layout& layout = task.context.layout;
  const size_t bytes = block_elements * element_bytes(task.across.dtype);
  std::byte* const own = task.buffer + static_cast<size_t>(layout.local_rank()) * bytes;
  if (pinned_ == nullptr) {
    const size_t largest = kPackBufferBytes / static_cast<size_t>(layout.smallest_local_size());
    const size_t room = kBlockElements * sizeof(double);
    if (Status s = device_->allocate_pinned(largest + room, pinned_); !s.ok()) return s;
  }
  std::vector<std::shared_ptr<DeviceEvent>> copied;
  if (Status s = copy_pieces(own, bytes, copied); !s.ok()) return s;
  const Layout hosts = layout_of_hosts(layout);
  CounterpartLinks links(*task.context.links, layout);
  CollectiveContext context{hosts, task.context.stage, &links};
  for (size_t piece = 0; piece < copied.size(); ++piece) {
    const size_t offset = piece * kPieceBytes;
    const size_t count = std::min(kPieceBytes, bytes - offset);
    if (Status s = await_event(*copied[piece], task.watch); !s.ok()) return s;
    GatherList data;
    data.add(pinned_ + offset, pinned_ + offset, count);
    if (Status s = ring_allreduce({context, data, task.across, task.chunk_bytes}); !s.ok()) return s;
    if (Status s = device_->copy_to_device(pointer_of(own + offset), pinned_ + offset, count, stream_); !s.ok()) {
      return s;
    }
  }
  return Status::ok_status();
}

}  // namespace ringtune
