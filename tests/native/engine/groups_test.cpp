// SPDX-License-Identifier: Apache-2.0
// Tensors of one group go together or not at all.
#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::counter;
using testing::finish;
using testing::run_world;

constexpr uint32_t kMembers = 5;

TensorArguments member(const std::string& group, uint32_t number, std::vector<float>& values) {
  TensorArguments arguments = testing::tensor(group + "." + std::to_string(number), values, values);
  arguments.group = group;
  arguments.group_size = kMembers;
  return arguments;
}

TEST(Groups, GoInOneResponseWhateverTheFusionLimit) {
  run_world(
      2,
      [](Engine& engine) {
        std::vector<std::vector<float>> values(kMembers, std::vector<float>(1000, 1));
        std::vector<Handle> handles(kMembers);
        const uint64_t before = counter(engine, "responses");
        for (uint32_t i = 0; i < kMembers; ++i) {
          ASSERT_TRUE(engine.allreduce_async(member("g", i, values[i]), {ReduceOp::kSum}, false, handles[i]).ok());
        }
        for (const Handle handle : handles) {
          ASSERT_TRUE(finish(engine, handle).ok());
        }

        EXPECT_EQ(before + 1, counter(engine, "responses"));
        EXPECT_EQ(std::vector<std::vector<float>>(kMembers, std::vector<float>(1000, 2)), values);
      },
      [](EngineOptions& options) { options.config.fusion_bytes = 0; });
}

TEST(Groups, NothingGoesBeforeTheLastMemberIsThere) {
  run_world(2, [](Engine& engine) {
    std::vector<std::vector<float>> values(kMembers, std::vector<float>(8, 1));
    std::vector<Handle> handles(kMembers);
    for (uint32_t i = 0; i + 1 < kMembers; ++i) {
      ASSERT_TRUE(engine.allreduce_async(member("g", i, values[i]), {ReduceOp::kSum}, false, handles[i]).ok());
    }
    std::vector<float> other(1, 1);
    ASSERT_TRUE(testing::allreduce(engine, "other", other).ok());

    EXPECT_FALSE(engine.poll(handles[0]));
    EXPECT_EQ(1.0f, values[0][0]);

    ASSERT_TRUE(
        engine.allreduce_async(member("g", kMembers - 1, values.back()), {ReduceOp::kSum}, false, handles[kMembers - 1])
            .ok());
    for (const Handle handle : handles) {
      ASSERT_TRUE(finish(engine, handle).ok());
    }
    EXPECT_EQ(2.0f, values[0][0]);
  });
}

TEST(Groups, OneMismatchFailsAllOfThemAndTheNameCanBeUsedAgain) {
  run_world(3, [](Engine& engine) {
    for (const bool is_good : {false, true}) {
      std::vector<std::vector<float>> values(kMembers, std::vector<float>(6, 1));
      std::vector<Handle> handles(kMembers);
      for (uint32_t i = 0; i < kMembers; ++i) {
        TensorArguments arguments = member("g", i, values[i]);
        if (!is_good && i == 2 && engine.rank() == 1) {
          arguments.shape = {2, 3};
        }
        ASSERT_TRUE(engine.allreduce_async(arguments, {ReduceOp::kSum}, false, handles[i]).ok());
      }
      for (const Handle handle : handles) {
        const Status status = finish(engine, handle);
        EXPECT_EQ(is_good ? StatusCode::kOk : StatusCode::kMismatchError, status.code()) << status.message();
        if (!is_good) {
          EXPECT_NE(std::string::npos, status.message().find("'g.2' differs")) << status.message();
        }
      }
      EXPECT_EQ(std::vector<float>(6, is_good ? 3.0f : 1.0f), values[0]);
    }
  });
}

TEST(Groups, AMemberThatNoRankSubmitsEndsInATimeoutThatNamesTheGroup) {
  run_world(
      2,
      [](Engine& engine) {
        std::vector<float> values(4, 1);
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine.allreduce_async(member("half", 0, values), {ReduceOp::kSum}, false, handle).ok());

        const Status status = finish(engine, handle);

        EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
        EXPECT_NE(std::string::npos, status.message().find("group 'half'")) << status.message();
      },
      [](EngineOptions& options) { options.stall_warn_s = options.timeout_s = 2; });
}

TEST(Fusion, LooksAheadPastTensorsOfAnotherType) {
  run_world(
      2,
      [](Engine& engine) {
        std::vector<float> first(64, 1);
        std::vector<double> between(64, 1);
        std::vector<float> last(64, 1);
        std::vector<Handle> handles(3);
        const uint64_t before = counter(engine, "responses");
        const ReduceArguments sum{ReduceOp::kSum};
        ASSERT_TRUE(engine.allreduce_async(testing::tensor("a", first, first), sum, false, handles[0]).ok());
        ASSERT_TRUE(engine.allreduce_async(testing::tensor("b", between, between), sum, false, handles[1]).ok());
        ASSERT_TRUE(engine.allreduce_async(testing::tensor("c", last, last), sum, false, handles[2]).ok());
        for (const Handle handle : handles) {
          ASSERT_TRUE(finish(engine, handle).ok());
        }

        EXPECT_EQ(before + 2, counter(engine, "responses"));  // a and c, then b
      },
      [](EngineOptions& options) { options.config.cycle_ms = 50; });
}

}  // namespace
}  // namespace ringtune
