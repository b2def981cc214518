// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <limits>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

TEST(Config, DefaultsAreInsideTheBox) { EXPECT_TRUE(validate(EngineConfig()).ok()); }

TEST(Config, ValuesOutsideTheBoxAreRefused) {
  const auto is_refused = [](auto change) {
    EngineConfig config;
    change(config);
    return validate(config).code() == StatusCode::kConfigError;
  };

  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.fusion_bytes = kMinFusionBytes - 1; }));
  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.fusion_bytes = kMaxFusionBytes + 1; }));
  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.cycle_ms = 0.04; }));
  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.cycle_ms = 51; }));
  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.cycle_ms = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.chunk_bytes = kMinChunkBytes - 1; }));
  EXPECT_TRUE(is_refused([](EngineConfig& c) { c.chunk_bytes = kMaxChunkBytes + 1; }));
}

TEST(Config, TheHashChangesWithEveryKnob) {
  const uint64_t base = config_hash(EngineConfig());
  const auto hash_after = [](auto change) {
    EngineConfig config;
    change(config);
    return config_hash(config);
  };

  EXPECT_EQ(base, config_hash(EngineConfig()));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.fusion_bytes = 0; }));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.cycle_ms = 1.0000001; }));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.hierarchical_allreduce = true; }));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.hierarchical_allgather = true; }));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.response_cache = false; }));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.allreduce_algorithm = "direct"; }));
  EXPECT_NE(base, hash_after([](EngineConfig& c) { c.chunk_bytes = 32768; }));
}

}  // namespace
}  // namespace ringtune
