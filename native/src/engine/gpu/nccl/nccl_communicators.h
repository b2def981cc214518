// SPDX-License-Identifier: Apache-2.0
// A world's communicators on this rank's GPU: one of all ranks, and parts of it that share its memory.
//
// All ranks ask for the same one at the same time, so each is made at its first use. One stream uses them in turn. The
// first one that is aborted ends the kernels of all.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "collectives/collective_context.h"
#include "device/nccl/nccl_communicator.h"

namespace ringtune {

class NcclCommunicators {
 public:
  using Watch = NcclCommunicator::Watch;

  // Returns when the GPU has finished all operations of the communicators.
  using Drain = std::function<Status(const Watch& watch)>;

  NcclCommunicators(std::shared_ptr<const NcclLibrary> library, const Layout& layout, Drain drain)
      : library_(std::move(library)), layout_(layout), drain_(std::move(drain)) {}

  // Below: in a scope of the device.

  // Meets all ranks.
  Status open(CollectiveContext& host, const Watch& watch);
  // All ranks, with as many thread blocks as NCCL chooses, or at most so many.
  Status of_world(int max_ctas, const Watch& watch, NcclCommunicator*& communicator);
  // The ranks of this host, by local rank.
  Status of_host(const Watch& watch, NcclCommunicator*& communicator);

  // An error that one of them has met since its last use; never waits.
  Status error();
  // In good order, with all ranks; those that cannot are aborted.
  Status close(const Watch& watch);
  void abort();

 private:
  Status split(const NcclPart& part, const Watch& watch, std::unique_ptr<NcclCommunicator>& communicator);

  const std::shared_ptr<const NcclLibrary> library_;
  const Layout& layout_;
  const Drain drain_;
  std::unique_ptr<NcclCommunicator> world_;
  std::unique_ptr<NcclCommunicator> host_;
  std::map<int, std::unique_ptr<NcclCommunicator>> limited_;  // keys: their thread blocks
};

}  // namespace ringtune
