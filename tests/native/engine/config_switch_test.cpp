// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <random>
#include <type_traits>

#include <gtest/gtest.h>

#include "collectives/allreduce.h"
#include "collectives/element.h"
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

constexpr size_t kLanes = 8;  // between two ranks of different hosts

EngineConfig random_config(std::mt19937& random, bool has_hosts) {
  EngineConfig config;
  config.fusion_bytes = random() % 4 == 0 ? 0 : 64 * kKiB << random() % 12;
  config.cycle_ms = 0.05 * static_cast<double>(1 + random() % 40);
  config.response_cache = random() % 2 == 0;
  const auto algorithms = configurable_allreduce_algorithms();  // one that cannot run in a layout is ignored there
  const size_t choice = random() % (algorithms.size() + 1);
  config.allreduce_algorithm = choice < algorithms.size() ? std::string(algorithms[choice]) : kAutoAlgorithm;
  config.chunk_bytes = random() % 3 == 0 ? 0 : kMinChunkBytes << random() % 9;
  config.hierarchical_allreduce = has_hosts && random() % 2 == 0;
  config.connections = random() % 2 == 0 ? 1 : 1 + random() % kLanes;
  config.skew = random() % 2 == 0;
  config.wire = random() % 2 == 0 ? kWireExact : kWireBf16;
  return config;
}

// A tensor of any type whose elements are small integers: every sum is exact in every type, so that every rank knows
// the right answer without asking.
class SmallIntegers {
 public:
  static constexpr int kModulus = 16;

  SmallIntegers(DataType dtype, size_t count) : dtype_(dtype), count_(count), bytes_(count * element_bytes(dtype)) {}

  void fill(int rank, int offset) {
    for (size_t k = 0; k < count_; ++k) {
      store(k, value(k, rank, offset));
    }
  }

  // The index of the first element that is not the sum over all ranks, or the count.
  size_t first_wrong(int world_size, int offset) {
    SmallIntegers expected(dtype_, 1);
    for (size_t k = 0; k < count_; ++k) {
      int sum = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        sum += value(k, rank, offset);
      }
      expected.store(0, sum);
      if (std::memcmp(expected.bytes_.data(), bytes_.data() + k * element_bytes(dtype_), element_bytes(dtype_)) != 0) {
        return k;
      }
    }
    return count_;
  }

  size_t count() const { return count_; }
  TensorArguments arguments(const std::string& name) {
    return {name, bytes_.data(), bytes_.data(), {static_cast<int64_t>(count_)}, dtype_};
  }

 private:
  static int value(size_t k, int rank, int offset) {
    return static_cast<int>((k * static_cast<size_t>(rank + 1) + static_cast<size_t>(offset)) % kModulus);
  }

  template <typename T>
  void put(size_t k, T element) {
    std::memcpy(bytes_.data() + k * sizeof(T), &element, sizeof(T));
  }

  void store(size_t k, int number) {
    with_element(dtype_, [&](auto element) {
      using E = decltype(element);
      const bool is_bool = std::is_same_v<E, Element<Bool>>;
      put(k, E::store(static_cast<typename E::Accumulator>(is_bool ? number != 0 : number)));
    });
  }

  DataType dtype_;
  size_t count_;
  Bytes bytes_;
};

// Shapes, types and values are functions of (seed, round), so that every rank knows the right answer.
class StressTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  static constexpr int kBatch = 8;
  static constexpr unsigned kReducibleTypes = static_cast<unsigned>(DataType::kUInt64) + 1;

  static void run_rank(Engine& engine, int rounds) {
    std::mt19937 shapes(17);   // equal on all ranks
    std::mt19937 configs(29);  // rank 0's
    uint64_t last_switch_cycle = 0;
    int switches = 0;
    const bool has_hosts = GetParam().back() > 0;
    for (int round = 0; round < rounds; round += kBatch) {
      if (engine.rank() == 0 && counter(engine, "cycles") >= last_switch_cycle + 10) {
        uint64_t epoch = 0;
        ASSERT_TRUE(engine.apply_config(random_config(configs, has_hosts), epoch).ok());
        if (++switches % 32 == 1) {
          ASSERT_TRUE(engine.measure_host_rates().ok());
        }
        last_switch_cycle = counter(engine, "cycles");
      }
      run_batch(engine, round, shapes);
    }
  }

  static void run_batch(Engine& engine, int round, std::mt19937& shapes) {
    std::vector<SmallIntegers> tensors;
    std::vector<Handle> handles(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      const size_t count = shapes() % 50 == 0 ? shapes() % 200000 : shapes() % 700;
      tensors.emplace_back(static_cast<DataType>(shapes() % kReducibleTypes), count);
      tensors.back().fill(engine.rank(), round + i);
    }
    for (int i = 0; i < kBatch; ++i) {
      const std::string name = "t" + std::to_string(shapes() % 2 == 0 ? i : kBatch + i);
      ASSERT_TRUE(engine.allreduce_async(tensors[i].arguments(name), {ReduceOp::kSum}, true, handles[i]).ok());
    }
    for (int i = 0; i < kBatch; ++i) {
      ASSERT_TRUE(finish(engine, handles[i]).ok());
      ASSERT_EQ(tensors[i].count(), tensors[i].first_wrong(engine.world_size(), round + i)) << "round " << round + i;
    }
    engine.mark_step();
  }
};

TEST_P(StressTest, NoWrongElementWhileParametersSwitch) {
  const int rounds = stress_rounds();
  uint64_t switches = 0;

  testing::run_hosts(
      GetParam(),
      [&](Engine& engine) {
        run_rank(engine, rounds);
        if (engine.rank() == 0) {
          switches = counter(engine, "config_switches");
        }
      },
      nullptr, kLanes);

  EXPECT_GT(switches, static_cast<uint64_t>(rounds) / 1000);
  RecordProperty("allreduces", rounds);
  RecordProperty("config_switches", static_cast<int>(switches));
}

INSTANTIATE_TEST_SUITE_P(Worlds, StressTest,
                         ::testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 0, 0},
                                           std::vector<int>{0, 0, 0, 0}, std::vector<int>{0, 0, 1, 1},
                                           std::vector<int>{0, 1, 1}));

}  // namespace
}  // namespace ringtune
