// SPDX-License-Identifier: Apache-2.0
// Ranks introduce themselves before they use NCCL, and draw the same conclusion from it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/collective_context.h"
#include "engine/gpu/gpu_rules.h"

namespace ringtune {

inline constexpr size_t kMeetingChunkBytes = 64 * kKiB;

struct NcclIntroduction {
  std::array<uint8_t, 16> gpu;
  int32_t version;
  uint8_t has_nccl;
  uint8_t has_memory_pools;
  uint8_t has_kernels;
  char text[253];  // reason why it has not NCCL, or not the kernels
};

// All ranks at the same time.
Status exchange_introductions(const NcclIntroduction& own, CollectiveContext& host, std::vector<NcclIntroduction>& all);

// Reason why these ranks cannot use NCCL; empty if they can.
std::string find_obstacle(std::span<const NcclIntroduction> all, GpuOperations operations);

}  // namespace ringtune
