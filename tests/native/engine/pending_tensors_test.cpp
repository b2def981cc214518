// SPDX-License-Identifier: Apache-2.0
#include "engine/pending_tensors.h"

#include <gtest/gtest.h>

#include "transport/shm/segment.h"

namespace ringtune {
namespace {

Submission submission(const std::string& name, int64_t elements = 4) {
  Submission submission;
  submission.name = name;
  submission.signature.kind = OpKind::kAllreduce;
  submission.signature.dtype = DataType::kFloat32;
  submission.signature.shape = {elements};
  return submission;
}

Request add(PendingTensors& pending, const Submission& submission, bool is_cache_on = true) {
  Request request;
  pending.add(submission, is_cache_on, request);
  return request;
}

class PendingTensorsTest : public ::testing::Test {
 protected:
  // Has been through once, as `id`.
  void learn(const std::string& name, CacheId id) {
    add(pending_, submission(name));
    ASSERT_TRUE(pending_.take(ResponseTensor{id, name, std::nullopt}, zeros_));
  }

  PendingTensors pending_;
  std::vector<Bytes> zeros_;
};

TEST_F(PendingTensorsTest, ATensorGoesByNameFirstAndByItsIdAfterwards) {
  const Request first = add(pending_, submission("x"));
  ASSERT_EQ(1u, first.items.size());
  ASSERT_TRUE(pending_.take(ResponseTensor{1, "x", std::nullopt}, zeros_));

  const Request second = add(pending_, submission("x"));

  EXPECT_EQ(std::vector<CacheId>{1}, second.cached);
  EXPECT_TRUE(second.items.empty());
  EXPECT_EQ("x", pending_.take(CacheId{1}, zeros_)->name);
  EXPECT_TRUE(pending_.empty());
  EXPECT_FALSE(pending_.take(CacheId{1}, zeros_));
}

TEST_F(PendingTensorsTest, ATensorWhoseIdCannotBeLearnedIsStillWaitedFor) {
  Submission waited = submission("x");
  waited.handle = 7;
  add(pending_, waited);

  EXPECT_FALSE(pending_.take(ResponseTensor{99, "x", std::nullopt}, zeros_));

  const std::vector<Submission> left = pending_.take_all();
  ASSERT_EQ(1u, left.size());
  EXPECT_EQ(7u, left.front().handle);
}

TEST_F(PendingTensorsTest, AJoinedRankHasNoZerosForATensorLargerThanMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator ends the process in place of std::bad_alloc";
#endif
  add(pending_, submission(std::string(kJoinName)));
  const Signature endless = submission("x", int64_t{1} << 60).signature;

  EXPECT_FALSE(pending_.take(ResponseTensor{kNoCacheId, "x", endless}, zeros_));
}

TEST_F(PendingTensorsTest, WhatWasAskedForByIdCanBeAnsweredByName) {
  learn("x", 1);
  add(pending_, submission("x"));

  EXPECT_TRUE(pending_.take("x"));
  EXPECT_TRUE(pending_.empty());
}

TEST_F(PendingTensorsTest, WhatWasAskedForByNameCanBeAnsweredById) {
  learn("x", 1);
  const Request request = add(pending_, submission("x"), false);
  ASSERT_EQ(1u, request.items.size());

  EXPECT_TRUE(pending_.take(CacheId{1}, zeros_));
  EXPECT_TRUE(pending_.empty());
}

TEST_F(PendingTensorsTest, AnotherShapeGoesByName) {
  learn("x", 1);

  EXPECT_EQ(1u, add(pending_, submission("x", 5)).items.size());
}

TEST_F(PendingTensorsTest, ARankThatHasJoinedGivesZerosAndWaitsForNothing) {
  learn("x", 1);
  Submission join = submission(kJoinName);
  join.signature.kind = OpKind::kJoin;
  add(pending_, join);
  EXPECT_FALSE(pending_.wait_for_data());

  const std::optional<Submission> zero = pending_.take(CacheId{1}, zeros_);

  ASSERT_TRUE(zero);
  EXPECT_EQ(kNoHandle, zero->handle);
  ASSERT_EQ(1u, zeros_.size());
  EXPECT_EQ(Bytes(16), zeros_.front());
  EXPECT_FALSE(pending_.take(ResponseTensor{2, "unknown", std::nullopt}, zeros_));
  EXPECT_FALSE(pending_.empty());
}

TEST_F(PendingTensorsTest, EverythingCanBeTakenAtOnce) {
  learn("x", 1);
  add(pending_, submission("x"));
  add(pending_, submission("y"));
  EXPECT_TRUE(pending_.wait_for_data());

  const std::vector<Submission> all = pending_.take_all();

  ASSERT_EQ(2u, all.size());
  EXPECT_EQ("x", all[0].name);
  EXPECT_EQ("y", all[1].name);
  EXPECT_TRUE(pending_.empty());
}

TEST(RequestFrames, IdsGoAheadOfItemsAndNoFrameIsTooLargeWhateverTheNames) {
  constexpr size_t kItems = 300;
  Request request{3, 4, {9, 1, 5}, {}};
  for (size_t i = 0; i < kItems; ++i) {
    RequestItem item{std::to_string(i) + std::string(4000, 'n'), {}, kNotInArena};
    item.signature.group = std::string(256, 'g');
    item.signature.shape.resize(64);
    request.items.push_back(item);
  }

  const std::vector<Bytes> frames = encode_in_frames(request);

  std::vector<CacheId> ids;
  std::vector<std::string> names;
  for (const Bytes& frame : frames) {
    EXPECT_LE(frame.size(), kRequestRingBytes / 2);
    Request received;
    ASSERT_TRUE(decode(frame, received));
    EXPECT_EQ(4u, received.config_hash);
    EXPECT_TRUE(names.empty() || received.cached.empty());
    ids.insert(ids.end(), received.cached.begin(), received.cached.end());
    for (const RequestItem& item : received.items) {
      EXPECT_EQ(std::to_string(names.size()), item.name.substr(0, item.name.find('n')));
      names.push_back(item.name);
    }
  }
  EXPECT_EQ((std::vector<CacheId>{1, 5, 9}), ids);
  EXPECT_EQ(kItems, names.size());
}

}  // namespace
}  // namespace ringtune
