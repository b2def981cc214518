// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/other_value.h"

namespace ringtune {
namespace {

TEST(Config, DefaultsAreInsideTheBox) { EXPECT_TRUE(validate(EngineConfig()).ok()); }

// Returns whether a config with this value of the row is refused by an error that names the knob.
template <typename T, typename Allowed>
bool is_refused(const Knob<T, Allowed>& knob, T value) {
  EngineConfig config;
  config.*knob.value = value;
  const Status status = validate(config);
  return status.code() == StatusCode::kConfigError && status.message().starts_with(knob.name);
}

template <typename T>
void expect_bounds(const Knob<T, Range<T>>& knob) {
  const auto& [low, high, zero] = knob.allowed;
  const T step = std::is_integral_v<T> ? T{1} : low / 64;
  EXPECT_FALSE(is_refused(knob, low)) << knob.name;
  EXPECT_FALSE(is_refused(knob, high)) << knob.name;
  if (low != step) {
    EXPECT_TRUE(is_refused(knob, low - step)) << knob.name;
  }
  EXPECT_TRUE(is_refused(knob, high + step)) << knob.name;
  EXPECT_EQ(zero == Zero::kRefused, is_refused(knob, T{})) << knob.name;
  if constexpr (std::numeric_limits<T>::has_quiet_NaN) {
    EXPECT_TRUE(is_refused(knob, std::numeric_limits<T>::quiet_NaN())) << knob.name;
  }
}

template <typename T>
void expect_bounds(const Knob<T, AnyValue>& knob) {
  EXPECT_FALSE(is_refused(knob, testing::other_value(EngineConfig().*knob.value))) << knob.name;
}

template <typename T, size_t kCount>
void expect_bounds(const Knob<T, OneOf<kCount>>& knob) {
  for (const std::string_view name : knob.allowed.names) {
    EXPECT_FALSE(is_refused(knob, T(name))) << knob.name;
    EXPECT_TRUE(is_refused(knob, testing::other_value(T(name)))) << knob.name;
  }
}

TEST(Config, EveryRowsBoundsAreKept) {
  for_each_knob([](const auto& knob) { expect_bounds(knob); });
}

TEST(Config, ARefusalNamesTheValueAndWhatIsAllowed) {
  EngineConfig config;
  config.chunk_bytes = 5;

  EXPECT_EQ("chunk_bytes=5 is not allowed; allowed: auto or 16384 to 4194304", validate(config).message());
}

TEST(Config, ARefusalOfANameSaysWhichThereAre) {
  EngineConfig config;
  config.wire = "fp8";

  EXPECT_EQ("wire=fp8 is not allowed; allowed: exact, bf16", validate(config).message());
}

TEST(Config, ADescriptionNamesKnobsAndValues) {
  EXPECT_TRUE(describe(EngineConfig())
                  .starts_with("fusion_bytes 67108864, cycle_ms 1, hierarchical_allreduce false, "
                               "hierarchical_allgather false, response_cache true, allreduce_algorithm auto, "
                               "chunk_bytes auto"));
}

TEST(Config, TheHashChangesWithEveryKnob) {
  for_each_knob([](const auto& knob) {
    EngineConfig config;
    config.*knob.value = testing::other_value(config.*knob.value);

    EXPECT_NE(config_hash(EngineConfig()), config_hash(config)) << knob.name;
  });
}

// Ranks that were built apart compare hashes of it. A new knob adds its value at the end.
TEST(Config, TheCanonicalTextOfAConfigStaysTheSame) {
  const EngineConfig other{0, 2.5, true, false, false, "direct", 32768};

  EXPECT_TRUE(canonical_text(EngineConfig()).starts_with("67108864|0x1p+0|001|auto|0"));
  EXPECT_TRUE(canonical_text(other).starts_with("0|0x1.4p+1|100|direct|32768"));
}

}  // namespace
}  // namespace ringtune
