// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <sstream>

#include "base/hash.h"

namespace ringtune {
namespace {

Status out_of_box(const char* knob, const std::string& value, const std::string& allowed) {
  return {StatusCode::kConfigError, std::string(knob) + "=" + value + " is outside " + allowed};
}

template <typename T>
bool is_within(T value, T low, T high) {
  return value >= low && value <= high;  // false for NaN
}

}  // namespace

Status validate(const EngineConfig& config) {
  if (config.fusion_bytes != 0 && !is_within(config.fusion_bytes, kMinFusionBytes, kMaxFusionBytes)) {
    return out_of_box("fusion_bytes", std::to_string(config.fusion_bytes), "0 or 64 KiB ... 256 MiB");
  }
  if (!is_within(config.cycle_ms, kMinCycleMs, kMaxCycleMs)) {
    return out_of_box("cycle_ms", std::to_string(config.cycle_ms), "0.05 ... 50");
  }
  if (config.chunk_bytes != 0 && !is_within(config.chunk_bytes, kMinChunkBytes, kMaxChunkBytes)) {
    return out_of_box("chunk_bytes", std::to_string(config.chunk_bytes), "auto or 16 KiB ... 4 MiB");
  }
  return Status::ok_status();
}

std::string describe(const EngineConfig& config) {
  std::ostringstream text;
  text << std::boolalpha << "fusion_bytes " << config.fusion_bytes << ", cycle_ms " << config.cycle_ms
       << ", hierarchical_allreduce " << config.hierarchical_allreduce << ", hierarchical_allgather "
       << config.hierarchical_allgather << ", response_cache " << config.response_cache << ", allreduce_algorithm "
       << config.allreduce_algorithm << ", chunk_bytes "
       << (config.chunk_bytes == 0 ? kAutoAlgorithm : std::to_string(config.chunk_bytes));
  return text.str();
}

uint64_t config_hash(const EngineConfig& config) {
  std::ostringstream text;
  text << config.fusion_bytes << '|' << std::hexfloat << config.cycle_ms << '|' << config.hierarchical_allreduce
       << config.hierarchical_allgather << config.response_cache << '|' << config.allreduce_algorithm << '|'
       << config.chunk_bytes;
  const std::string canonical = text.str();
  return fnv1a(canonical.data(), canonical.size());
}

}  // namespace ringtune
