// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <sstream>

#include "base/hash.h"

namespace ringtune {
namespace {

Status out_of_box(const char* knob, const std::string& value, const std::string& allowed) {
  return {StatusCode::kConfigError, std::string(knob) + "=" + value + " is outside " + allowed};
}

}  // namespace

Status validate(const EngineConfig& config) {
  const bool is_fusion_legal =
      config.fusion_bytes == 0 || (config.fusion_bytes >= kMinFusionBytes && config.fusion_bytes <= kMaxFusionBytes);
  if (!is_fusion_legal) {
    return out_of_box("fusion_bytes", std::to_string(config.fusion_bytes), "0 or 64 KiB ... 256 MiB");
  }
  // Written so that NaN is refused too.
  if (!(config.cycle_ms >= kMinCycleMs && config.cycle_ms <= kMaxCycleMs)) {
    return out_of_box("cycle_ms", std::to_string(config.cycle_ms), "0.05 ... 50");
  }
  const bool is_chunk_legal =
      config.chunk_bytes == 0 || (config.chunk_bytes >= kMinChunkBytes && config.chunk_bytes <= kMaxChunkBytes);
  if (!is_chunk_legal) {
    return out_of_box("chunk_bytes", std::to_string(config.chunk_bytes), "auto or 16 KiB ... 4 MiB");
  }
  if (config.hierarchical_allreduce || config.hierarchical_allgather) {
    return {StatusCode::kConfigError, "hierarchical collectives need more than one host; this world has one"};
  }
  return Status::ok_status();
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
