// SPDX-License-Identifier: Apache-2.0
#include "engine/recurrence.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::counter;

Signature vector_of(int64_t extent) {
  Signature signature;
  signature.kind = OpKind::kAllreduce;
  signature.dtype = DataType::kFloat32;
  signature.shape = {extent};
  return signature;
}

TEST(Recurrence, ATensorComesAgainAsItWasTheLastTime) {
  Recurrence recurrence;
  Signature average = vector_of(3);
  average.op = ReduceOp::kAverage;
  Signature grouped = vector_of(3);
  grouped.group = "g";
  const std::vector<std::pair<Signature, ArenaOffset>> different{
      {vector_of(3), kNotInArena}, {vector_of(3), 64}, {vector_of(4), 64}, {average, 64}, {grouped, 64}};

  for (const auto& [signature, place] : different) {
    EXPECT_FALSE(recurrence.comes_again("x", signature, place)) << signature.describe();
    EXPECT_TRUE(recurrence.comes_again("x", signature, place)) << signature.describe();
    EXPECT_TRUE(recurrence.comes_again("x", signature, place)) << signature.describe();
  }
  EXPECT_FALSE(recurrence.comes_again("y", grouped, 64));
}

TEST(Recurrence, ShapesThatTakeTurnsNeverComeAgain) {
  Recurrence recurrence;

  for (int64_t round = 0; round < 10; ++round) {
    EXPECT_FALSE(recurrence.comes_again("x", vector_of(round % 2), kNotInArena));
  }
}

TEST(Recurrence, ANameIsRememberedOverManyOthersAndForgottenOverMore) {
  Recurrence recurrence;
  const auto meet_others = [&recurrence](int count) {
    for (int i = 0; i < count; ++i) {
      recurrence.comes_again("noname." + std::to_string(i), vector_of(3), kNotInArena);
    }
  };
  recurrence.comes_again("x", vector_of(3), kNotInArena);

  meet_others(kMaxCacheId);
  EXPECT_TRUE(recurrence.comes_again("x", vector_of(3), kNotInArena));
  meet_others(3 * static_cast<int>(kMaxCacheId));
  EXPECT_FALSE(recurrence.comes_again("x", vector_of(3), kNotInArena));
}

// More names than there are ids, each used once.
TEST(Recurrence, NamesThatAreUsedOnceTakeNoCacheIds) {
  constexpr uint64_t kOnce = kMaxCacheId + 100;
  constexpr size_t kAtOnce = 1000;
  testing::run_world(2, [](Engine& engine) {
    std::vector<float> values(kAtOnce, 1);
    for (uint64_t done = 0; done < kOnce; done += kAtOnce) {
      std::vector<Handle> handles(kAtOnce);
      for (size_t i = 0; i < kAtOnce; ++i) {
        const TensorArguments tensor{"noname." + std::to_string(done + i), &values[i], &values[i], {1}};
        ASSERT_TRUE(engine.allreduce_async(tensor, {ReduceOp::kMax}, false, handles[i]).ok());
      }
      for (const Handle handle : handles) {
        ASSERT_TRUE(testing::finish(engine, handle).ok());
      }
    }
    const uint64_t before = counter(engine, "cached_requests");
    EXPECT_EQ(0u, before);

    for (int step = 0; step < 5; ++step) {
      std::vector<float> named(3, 1);
      ASSERT_TRUE(testing::allreduce(engine, "gradient.weight", named).ok());
    }

    EXPECT_EQ(3u, counter(engine, "cached_requests") - before);
  });
}

}  // namespace
}  // namespace ringtune
