// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_communicators.h"

#include "collectives/broadcast.h"
#include "engine/gpu/nccl/nccl_meeting.h"

namespace ringtune {

Status NcclCommunicators::open(CollectiveContext& host, const Watch& watch) {
  NcclUniqueId id{};
  if (layout_.rank() == kCoordinator) {
    if (Status s = NcclCommunicator::make_id(*library_, id); !s.ok()) return s;
  }
  const BroadcastTask task{host, reinterpret_cast<std::byte*>(&id), sizeof(id), kCoordinator, kMeetingChunkBytes};
  if (Status s = broadcast(task); !s.ok()) return s;
  world_ = std::make_unique<NcclCommunicator>(library_);
  if (Status s = world_->begin(id, layout_.rank(), layout_.world_size()); !s.ok()) return s;
  return world_->settle(watch);
}

Status NcclCommunicators::of_world(int max_ctas, const Watch& watch, NcclCommunicator*& communicator) {
  if (max_ctas == 0) {
    communicator = world_.get();
    return Status::ok_status();
  }
  std::unique_ptr<NcclCommunicator>& limited = limited_[max_ctas];
  if (Status s = split({0, layout_.rank(), max_ctas}, watch, limited); !s.ok()) return s;
  communicator = limited.get();
  return Status::ok_status();
}

Status NcclCommunicators::of_host(const Watch& watch, NcclCommunicator*& communicator) {
  if (Status s = split({layout_.host(), layout_.local_rank(), 0}, watch, host_); !s.ok()) return s;
  communicator = host_.get();
  return Status::ok_status();
}

Status NcclCommunicators::split(const NcclPart& part, const Watch& watch,
                                std::unique_ptr<NcclCommunicator>& communicator) {
  if (communicator != nullptr) {
    return Status::ok_status();
  }
  if (Status s = drain_(watch); !s.ok()) return s;
  auto made = std::make_unique<NcclCommunicator>(library_);
  if (Status s = made->split_off(*world_, part, watch); !s.ok()) return s;
  communicator = std::move(made);
  return Status::ok_status();
}

Status NcclCommunicators::error() {
  for (const auto& [ctas, communicator] : limited_) {
    if (communicator != nullptr) {
      if (Status s = communicator->error(); !s.ok()) return s;
    }
  }
  if (host_ != nullptr) {
    if (Status s = host_->error(); !s.ok()) return s;
  }
  return world_->error();
}

// Parts first: they use the memory of the whole.
Status NcclCommunicators::close(const Watch& watch) {
  Status status;
  const auto close_one = [&status, &watch](NcclCommunicator* communicator) {
    if (communicator != nullptr && status.ok()) {
      status = communicator->close(watch);
    }
  };
  for (const auto& [ctas, communicator] : limited_) {
    close_one(communicator.get());
  }
  close_one(host_.get());
  close_one(world_.get());
  abort();
  return status;
}

void NcclCommunicators::abort() {
  limited_.clear();
  host_.reset();
  world_.reset();
}

}  // namespace ringtune
