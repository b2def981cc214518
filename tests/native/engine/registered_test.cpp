// SPDX-License-Identifier: Apache-2.0
// Tensors in registered memory: when they are reduced where they are, and that they go the ordinary way else.
#include <algorithm>
#include <numeric>
#include <span>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::counter;
using testing::finish;
using testing::run_hosts;
using testing::run_world;

constexpr size_t kRegisteredElements = 80000;  // above the size of the direct algorithm
constexpr size_t kStride = kRegisteredElements + 16;

// Room for some tensors of kRegisteredElements floats in a rank's arena.
class Room {
 public:
  Room(Engine& engine, size_t tensors) {
    const Status status = engine.allocate_registered(tensors * kStride * sizeof(float), memory_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  std::span<float> tensor(size_t index) const {
    return {reinterpret_cast<float*>(memory_.get()) + index * kStride, kRegisteredElements};
  }

 private:
  std::shared_ptr<std::byte> memory_;
};

Handle submit(Engine& engine, const std::string& name, std::span<float> values, const std::string& group = "",
              uint32_t group_size = 0) {
  const TensorArguments tensor{
      name, values.data(), values.data(), {static_cast<int64_t>(values.size())}, DataType::kFloat32, group, group_size};
  Handle handle = kNoHandle;
  const Status status = engine.allreduce_async(tensor, {ReduceOp::kSum}, false, handle);
  EXPECT_TRUE(status.ok()) << status.message();
  return handle;
}

void fill(Engine& engine, std::span<float> values) {
  std::iota(values.begin(), values.end(), static_cast<float>(engine.rank()));
}

// True if the values are the sum over all ranks of the values that `fill` has written.
bool is_sum(const Engine& engine, std::span<const float> values) {
  const int ranks = engine.world_size();
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected =
        static_cast<float>(i) * static_cast<float>(ranks) + static_cast<float>(ranks * (ranks - 1) / 2);
    if (values[i] != expected) {
      return false;
    }
  }
  return true;
}

void expect_reduced(Engine& engine, const std::string& name, std::span<float> values) {
  fill(engine, values);
  const Status status = finish(engine, submit(engine, name, values));
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(is_sum(engine, values)) << name << " on rank " << engine.rank();
}

uint64_t registered_uses(const Engine& engine) { return counter(engine, "algorithm.registered"); }
uint64_t staged_uses(const Engine& engine) { return counter(engine, "algorithm.reduce_scatter_allgather"); }

TEST(Registered, TensorsInTheArenasAreReducedWhereTheyAre) {
  for (const bool is_cached : {true, false}) {
    run_world(
        3,
        [](Engine& engine) {
          const Room room(engine, 2);
          for (int step = 0; step < 4; ++step) {
            expect_reduced(engine, "x", room.tensor(0));
            expect_reduced(engine, "y", room.tensor(1));
          }
          EXPECT_EQ(8u, registered_uses(engine));
          EXPECT_EQ(0u, staged_uses(engine));
        },
        [is_cached](EngineOptions& options) { options.config.response_cache = is_cached; });
  }
}

TEST(Registered, OffsetsThatDifferBetweenRanksGoTheOrdinaryWay) {
  run_world(3, [](Engine& engine) {
    const Room room(engine, 3);
    std::vector<float> elsewhere(kRegisteredElements);
    const auto rank = static_cast<size_t>(engine.rank());
    for (int step = 0; step < 3; ++step) {
      expect_reduced(engine, "x", room.tensor(rank));
      expect_reduced(engine, "y", rank == 1 ? std::span<float>(elsewhere) : room.tensor(rank == 0 ? 0 : 2));
    }
    EXPECT_EQ(0u, registered_uses(engine));
    EXPECT_EQ(2 * 2u, counter(engine, "full_requests"));  // each rank's own place is learned
  });
}

TEST(Registered, ATensorThatMovesIsNegotiatedAnew) {
  run_world(2, [](Engine& engine) {
    const Room room(engine, 2);
    std::vector<float> elsewhere(kRegisteredElements);
    expect_reduced(engine, "x", elsewhere);
    EXPECT_EQ(0u, registered_uses(engine));
    for (int step = 0; step < 3; ++step) {
      expect_reduced(engine, "x", room.tensor(0));
    }
    EXPECT_EQ(3u, registered_uses(engine));
    for (int step = 0; step < 3; ++step) {
      expect_reduced(engine, "x", room.tensor(1));
    }
    EXPECT_EQ(6u, registered_uses(engine));
    EXPECT_EQ(1u + 2 * 2u, counter(engine, "full_requests"));
    EXPECT_EQ(2u, counter(engine, "cached_requests"));
  });
}

// Ranks that move one after the other meet again.
TEST(Registered, RanksThatMoveAtDifferentTimesMeetAgain) {
  run_world(2, [](Engine& engine) {
    const Room room(engine, 2);
    for (int step = 0; step < 6; ++step) {
      const int moves_at = engine.rank() == 0 ? 2 : 4;
      expect_reduced(engine, "x", room.tensor(step < moves_at ? 0 : 1));
    }
    EXPECT_EQ(4u, registered_uses(engine));
    EXPECT_EQ(2u, staged_uses(engine));
  });
}

TEST(Registered, AFusionHoldsRegisteredTensorsOrOthersInTheOrderOfTheArenas) {
  run_world(
      2,
      [](Engine& engine) {
        const Room room(engine, 3);
        std::vector<std::vector<float>> elsewhere(3, std::vector<float>(kRegisteredElements));
        for (int step = 0; step < 3; ++step) {
          std::vector<std::span<float>> tensors;
          for (const size_t index : {2, 0, 1}) {
            tensors.push_back(room.tensor(index));
            tensors.emplace_back(elsewhere[index]);
          }
          std::vector<Handle> handles;
          for (size_t i = 0; i < tensors.size(); ++i) {
            fill(engine, tensors[i]);
            handles.push_back(submit(engine, "t" + std::to_string(i), tensors[i]));
          }
          for (const Handle handle : handles) {
            const std::optional<Outcome> outcome = engine.wait(handle, testing::kDeadlineNs);
            ASSERT_TRUE(outcome && outcome->status.ok());
          }
          for (const auto values : tensors) {
            ASSERT_TRUE(is_sum(engine, values));
          }
          engine.mark_step();
        }
        EXPECT_GE(registered_uses(engine), 3u);
        EXPECT_GE(staged_uses(engine), 3u);
        EXPECT_EQ(registered_uses(engine) + staged_uses(engine), counter(engine, "responses"));
      },
      [](EngineOptions& options) { options.config.cycle_ms = 50; });
}

TEST(Registered, AGroupMayMixBothKinds) {
  run_world(2, [](Engine& engine) {
    const Room room(engine, 1);
    std::vector<float> elsewhere(kRegisteredElements);
    fill(engine, room.tensor(0));
    fill(engine, elsewhere);
    const Handle first = submit(engine, "a", room.tensor(0), "g", 2);
    const Handle second = submit(engine, "b", elsewhere, "g", 2);

    ASSERT_TRUE(finish(engine, first).ok());
    ASSERT_TRUE(finish(engine, second).ok());

    EXPECT_TRUE(is_sum(engine, room.tensor(0)));
    EXPECT_TRUE(is_sum(engine, elsewhere));
    EXPECT_EQ(1u, registered_uses(engine));
    EXPECT_EQ(1u, staged_uses(engine));
  });
}

TEST(Registered, AnAlgorithmThatTheConfigNamesIsObeyed) {
  run_world(
      2,
      [](Engine& engine) {
        const Room room(engine, 1);
        expect_reduced(engine, "x", room.tensor(0));
        EXPECT_EQ(1u, staged_uses(engine));
      },
      [](EngineOptions& options) { options.config.allreduce_algorithm = "reduce_scatter_allgather"; });
}

TEST(Registered, ATensorThatIsNotReducedInPlaceIsNotRegistered) {
  run_world(2, [](Engine& engine) {
    const Room room(engine, 2);
    const std::span<float> input = room.tensor(0);
    const std::span<float> output = room.tensor(1);
    fill(engine, input);
    Handle handle = kNoHandle;
    const TensorArguments tensor{"x", input.data(), output.data(), {static_cast<int64_t>(kRegisteredElements)}};
    ASSERT_TRUE(engine.allreduce_async(tensor, {ReduceOp::kSum}, false, handle).ok());

    ASSERT_TRUE(finish(engine, handle).ok());

    EXPECT_TRUE(is_sum(engine, output));
    EXPECT_EQ(0u, registered_uses(engine));
  });
}

TEST(Registered, ARankThatHasJoinedHasNoPlace) {
  run_world(2, [](Engine& engine) {
    const Room room(engine, 1);
    const std::span<float> values = room.tensor(0);
    expect_reduced(engine, "x", values);
    if (engine.rank() == 0) {
      fill(engine, values);
      ASSERT_TRUE(finish(engine, submit(engine, "x", values)).ok());
      EXPECT_EQ(1.0F, values[1]);
    }
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.join_async(handle).ok());
    ASSERT_TRUE(finish(engine, handle).ok());
    expect_reduced(engine, "x", values);
    EXPECT_EQ(2u, registered_uses(engine));
    EXPECT_EQ(1u, staged_uses(engine));
  });
}

TEST(Registered, AWorldOfSeveralHostsHasNone) {
  run_hosts({0, 0, 1}, [](Engine& engine) {
    std::shared_ptr<std::byte> memory;

    const Status status = engine.allocate_registered(100, memory);

    EXPECT_EQ(StatusCode::kConfigError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("one host")) << status.message();
  });
}

TEST(Registered, AfterTheEndNoMoreMemoryIsTaken) {
  run_world(1, [](Engine& engine) {
    engine.shutdown();
    std::shared_ptr<std::byte> memory;

    EXPECT_EQ(StatusCode::kShutDown, engine.allocate_registered(100, memory).code());
  });
}

TEST(Registered, MemoryOutlivesTheEngine) {
  std::vector<std::shared_ptr<std::byte>> memories(2);
  run_world(2, [&](Engine& engine) {
    auto& memory = memories[static_cast<size_t>(engine.rank())];
    ASSERT_TRUE(engine.allocate_registered(kRegisteredElements * sizeof(float), memory).ok());
    expect_reduced(engine, "x", {reinterpret_cast<float*>(memory.get()), kRegisteredElements});
  });

  for (const auto& memory : memories) {
    EXPECT_EQ(1.0F, *reinterpret_cast<float*>(memory.get()));
  }
}

}  // namespace
}  // namespace ringtune
