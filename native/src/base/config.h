// SPDX-License-Identifier: Apache-2.0
// A value for every knob of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringtune {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;

// The compiled-in box: whatever an optimizer or a service says, nothing outside it is applied.
inline constexpr uint64_t kMinFusionBytes = 64 * kKiB;  // or 0, fusion off
inline constexpr uint64_t kMaxFusionBytes = 256 * kMiB;
inline constexpr double kMinCycleMs = 0.05;
inline constexpr double kMaxCycleMs = 50.0;
inline constexpr uint64_t kMinChunkBytes = 16 * kKiB;  // or 0, from the engine's table
inline constexpr uint64_t kMaxChunkBytes = 4 * kMiB;

inline constexpr const char* kAutoAlgorithm = "auto";

struct EngineConfig {
  uint64_t fusion_bytes = 64 * kMiB;
  double cycle_ms = 1.0;
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  bool response_cache = true;
  std::string allreduce_algorithm = kAutoAlgorithm;
  uint64_t chunk_bytes = 0;

  bool operator==(const EngineConfig&) const = default;
};

// Checks the box; the algorithm's name is checked by who owns the registry.
Status validate(const EngineConfig& config);

// "fusion_bytes 8388608, cycle_ms 2.5, ...", for people.
std::string describe(const EngineConfig& config);

// FNV-1a over a canonical encoding; ranks compare it to prove that they run the same config.
uint64_t config_hash(const EngineConfig& config);

}  // namespace ringtune
