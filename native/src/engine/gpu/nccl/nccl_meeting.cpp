// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_meeting.h"

#include <cstring>

#include "collectives/allgather.h"

namespace ringtune {

Status exchange_introductions(const NcclIntroduction& own, CollectiveContext& host,
                              std::vector<NcclIntroduction>& all) {
  Gathered gathered;
  const auto* bytes = reinterpret_cast<const std::byte*>(&own);
  const AllgatherTask task{host, bytes, 1, sizeof(own), false, kMeetingChunkBytes};
  if (Status s = allgather(task, gathered); !s.ok()) return s;
  all.resize(static_cast<size_t>(host.world_size()));
  std::memcpy(all.data(), gathered.data(), all.size() * sizeof(own));
  return Status::ok_status();
}

std::string find_obstacle(std::span<const NcclIntroduction> all, GpuOperations operations) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].has_nccl) {
      return "on rank " + std::to_string(rank) + ", " + all[rank].text;
    }
    if (all[rank].version != all.front().version) {
      return "rank 0 has NCCL " + std::to_string(all.front().version) + ", rank " + std::to_string(rank) + " has " +
             std::to_string(all[rank].version);
    }
  }
  // Whoever asks for NCCL by name may know how to let ranks share a GPU.
  for (size_t rank = 1; rank < all.size() && operations == GpuOperations::kAuto; ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (all[other].gpu == all[rank].gpu) {
        return "ranks " + std::to_string(other) + " and " + std::to_string(rank) + " share a GPU";
      }
    }
  }
  return "";
}

}  // namespace ringtune
