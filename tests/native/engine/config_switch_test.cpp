// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::counter;
using testing::finish;
using testing::run_world;

TEST(ConfigSwitch, HoldsOnEveryRankFromTheRoundItTravelledBefore) {
  run_world(3, [](Engine& engine) {
    std::vector<float> values(4, 1);
    EngineConfig wanted = engine.config();
    wanted.fusion_bytes = 0;
    wanted.cycle_ms = 7;
    uint64_t epoch = 0;
    if (engine.rank() == 0) {
      ASSERT_TRUE(engine.apply_config(wanted, epoch).ok());
      EXPECT_EQ(1u, epoch);
    }

    // Rank 0 submits after it applied: this round, on every rank, runs under the new config.
    ASSERT_TRUE(allreduce(engine, "x", values).ok());

    EXPECT_EQ(1u, engine.config_epoch());
    EXPECT_EQ(wanted, engine.config());
  });
}

TEST(ConfigSwitch, OnlyRankZeroSwitchesAndOnlyInsideTheBox) {
  run_world(2, [](Engine& engine) {
    EngineConfig config;
    uint64_t epoch = 0;
    if (engine.rank() == 1) {
      EXPECT_EQ(StatusCode::kConfigError, engine.apply_config(config, epoch).code());
      return;
    }
    config.cycle_ms = 1000;
    EXPECT_EQ(StatusCode::kConfigError, engine.apply_config(config, epoch).code());
    config = EngineConfig();
    config.allreduce_algorithm = "unheard_of";
    EXPECT_EQ(StatusCode::kConfigError, engine.apply_config(config, epoch).code());
    EXPECT_EQ(0u, engine.config_epoch());
  });
}

TEST(ConfigSwitch, ARankThatRunsAnotherConfigStopsTheJobWithBothHashes) {
  run_world(
      2,
      [](Engine& engine) {
        std::vector<float> values(4, 1);

        const Status status = allreduce(engine, "x", values);

        EXPECT_EQ(StatusCode::kConfigError, status.code());
        EXPECT_NE(std::string::npos, status.message().find("with hash")) << status.message();
      },
      [](EngineOptions& options) { options.config.cycle_ms = 1 + options.rank; });
}

// The count of the full run, which `make test-long` asks for; the usual one keeps the suite quick.
int stress_rounds() {
  const char* rounds = std::getenv("RINGTUNE_TEST_STRESS_ROUNDS");
  return rounds == nullptr ? 4000 : std::atoi(rounds);
}

EngineConfig random_config(std::mt19937& random) {
  EngineConfig config;
  config.fusion_bytes = random() % 4 == 0 ? 0 : kMinFusionBytes << random() % 12;
  config.cycle_ms = 0.05 * static_cast<double>(1 + random() % 40);
  config.response_cache = random() % 2 == 0;
  config.allreduce_algorithm = std::vector<std::string>{"auto", "direct", "reduce_scatter_allgather"}[random() % 3];
  config.chunk_bytes = random() % 3 == 0 ? 0 : kMinChunkBytes << random() % 9;
  return config;
}

// Shapes and values are functions of (seed, round), so that every rank knows the right answer.
class StressTest : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kBatch = 8;

  static void run_rank(Engine& engine, int rounds) {
    std::mt19937 shapes(17);   // equal on all ranks
    std::mt19937 configs(29);  // rank 0's
    uint64_t last_switch_cycle = 0;
    for (int round = 0; round < rounds; round += kBatch) {
      if (engine.rank() == 0 && counter(engine, "cycles") >= last_switch_cycle + 10) {
        uint64_t epoch = 0;
        ASSERT_TRUE(engine.apply_config(random_config(configs), epoch).ok());
        last_switch_cycle = counter(engine, "cycles");
      }
      run_batch(engine, round, shapes);
    }
  }

  static void run_batch(Engine& engine, int round, std::mt19937& shapes) {
    std::vector<std::vector<int64_t>> values;
    std::vector<Handle> handles(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      const size_t count = shapes() % 50 == 0 ? shapes() % 200000 : shapes() % 700;
      values.emplace_back(count);
      for (size_t k = 0; k < count; ++k) {
        values.back()[k] = static_cast<int64_t>(k) * (engine.rank() + 1) + round + i;
      }
    }
    for (int i = 0; i < kBatch; ++i) {
      const std::string name = "t" + std::to_string(shapes() % 2 == 0 ? i : kBatch + i);
      const auto arguments = testing::tensor(name, values[i], values[i]);
      ASSERT_TRUE(engine.allreduce_async(arguments, ReduceOp::kSum, true, handles[i]).ok());
    }
    for (int i = 0; i < kBatch; ++i) {
      ASSERT_TRUE(finish(engine, handles[i]).ok());
      check(values[i], engine.world_size(), round + i);
    }
    engine.mark_step();
  }

  static void check(const std::vector<int64_t>& values, int world_size, int64_t offset) {
    const int64_t factor = world_size * (world_size + 1) / 2;
    for (size_t k = 0; k < values.size(); ++k) {
      ASSERT_EQ(static_cast<int64_t>(k) * factor + world_size * offset, values[k]) << "element " << k;
    }
  }
};

TEST_P(StressTest, NoWrongElementWhileParametersSwitch) {
  const int rounds = stress_rounds();
  uint64_t switches = 0;

  run_world(GetParam(), [&](Engine& engine) {
    run_rank(engine, rounds);
    if (engine.rank() == 0) {
      switches = counter(engine, "config_switches");
    }
  });

  EXPECT_GT(switches, static_cast<uint64_t>(rounds) / 1000);
  RecordProperty("config_switches", static_cast<int>(switches));
}

INSTANTIATE_TEST_SUITE_P(Worlds, StressTest, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace ringtune
