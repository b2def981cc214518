// SPDX-License-Identifier: Apache-2.0
// Allreduce of a buffer between hosts with GPUs: NCCL inside each host, the engine's network across.
//
// The first ranks of each host own a block of the buffer, as many as the smallest host has. NCCL sums each block to its
// owner; the owner copies it to the host's memory in pieces, reduces each on a ring of its counterparts, the ranks of
// its local number on the other hosts, and copies it back; NCCL broadcasts the blocks. Copies of one piece go on while
// another is on the network.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/collective_context.h"
#include "collectives/reduce_kernels.h"
#include "device/device.h"
#include "device/nccl/nccl_communicator.h"

namespace ringtune {

class NcclHierarchy {
 public:
  using Watch = NcclCommunicator::Watch;

  struct Task {
    NcclCommunicator& local_ranks;  // in the order of local ranks
    const NcclReduction& inside;
    const Reduction& across;  // the hosts' sums, neither scaled nor averaged
    std::byte* buffer;        // has room for `room_elements` more
    uint64_t elements;
    size_t chunk_bytes;
    CollectiveContext& context;
    const Watch& watch;
  };

  NcclHierarchy(std::shared_ptr<Device> device, cuda::Stream stream) : device_(std::move(device)), stream_(stream) {}
  // Requires that the stream has finished its work.
  ~NcclHierarchy();
  NcclHierarchy(const NcclHierarchy&) = delete;
  NcclHierarchy& operator=(const NcclHierarchy&) = delete;

  // True if there are several hosts, and several ranks on one of them.
  static bool has_effect(const Layout& layout);
  static uint64_t room_elements(const Layout& layout);

  // In a scope of the device. Enqueues all of it; waits for the GPU until the own block is in the host's memory.
  Status allreduce(const Task& task);

 private:
  Status reduce_to_owners(const Task& task, size_t block_elements) const;
  Status collect_blocks(const Task& task, size_t block_elements) const;
  // Begins to copy the block to the host's memory, with an event after each piece.
  Status copy_pieces(const std::byte* block, size_t bytes, std::vector<std::shared_ptr<DeviceEvent>>& copied);
  Status reduce_across(const Task& task, size_t block_elements);

  const std::shared_ptr<Device> device_;
  const cuda::Stream stream_;
  std::byte* pinned_ = nullptr;  // the own block; made at first use, for the largest buffer
};

}  // namespace ringtune
