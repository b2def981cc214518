// SPDX-License-Identifier: Apache-2.0
#include "engine/host_leader.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "base/clock.h"
#include "engine/submissions/submission.h"
#include "transport/cluster.h"

namespace ringtune {
namespace {

using testing::Cluster;
using testing::eventually;

constexpr int kLeader = 1;
constexpr int64_t kStart = 1000;
constexpr int64_t kLate = kStart + kHostWaitNs;

RequestItem item(const std::string& name, OpKind kind = OpKind::kAllreduce) {
  Signature signature;
  signature.kind = kind;
  signature.shape = {4};
  return {name, signature};
}

// Rank 0 alone on its host; rank 1 leads ranks 2 and 3. Real rings and sockets between them.
class HostLeaderTest : public ::testing::Test {
 protected:
  void request(int rank, std::vector<CacheId> ids, std::vector<RequestItem> items = {}, uint64_t epoch = 0) {
    ASSERT_TRUE(cluster_.transport(rank).try_send_request(encode(Request{epoch, 7, std::move(ids), std::move(items)})));
  }
  void request_all(const std::vector<CacheId>& ids) {
    for (const int rank : {1, 2, 3}) {
      request(rank, ids);
    }
  }

  void answer(const Response& response) {
    ASSERT_TRUE(cluster_.transport(kCoordinator).try_publish_response(encode(response)));
    ASSERT_TRUE(eventually([&] { return leader_.progress(kStart); }));
  }

  // The next request at rank 0; a default one where none comes.
  ForwardedRequest forwarded() {
    Bytes frame;
    ForwardedRequest next;
    EXPECT_TRUE(eventually([&] { return cluster_.transport(kCoordinator).try_receive_forwarded(kLeader, frame); }));
    EXPECT_TRUE(decode(frame, next));
    return next;
  }
  void expect_ids(int32_t rank, const std::vector<CacheId>& ids, uint64_t epoch = 0) {
    const ForwardedRequest next = forwarded();
    EXPECT_EQ(rank, next.rank);
    EXPECT_EQ(ids, next.request.cached);
    EXPECT_EQ(epoch, next.request.config_epoch);
    EXPECT_EQ(7u, next.request.config_hash);
    EXPECT_TRUE(next.request.items.empty());
  }
  void expect_nothing() {
    // Frames before this one have arrived.
    ASSERT_TRUE(cluster_.transport(kLeader).try_forward_request(encode(ForwardedRequest{99, {}})));
    EXPECT_EQ(99, forwarded().rank);
  }

  Cluster cluster_{{0, 1, 1, 1}};
  Layout layout_ = cluster_.layout(kLeader);
  HostLeader leader_{cluster_.transport(kLeader), layout_};
};

TEST_F(HostLeaderTest, IdsThatTheWholeHostHasRequestedTravelOnceRoundAfterRound) {
  for (int round = 0; round < 3; ++round) {
    request(3, {1, 2, 5});
    request(1, {1, 2, 5});
    leader_.progress(kStart + round);
    expect_nothing();

    request(2, {1, 2, 5});
    leader_.progress(kStart + round);

    expect_ids(ForwardedRequest::kEveryRank, {1, 2, 5});
    expect_nothing();
    EXPECT_FALSE(leader_.due_ns().has_value());
  }
}

TEST_F(HostLeaderTest, RequestsThatComeInPartsMeetByTheirIds) {
  request(1, {3});
  request(1, {1});
  request(2, {1, 3});
  request(3, {3});
  leader_.progress(kStart);
  expect_ids(ForwardedRequest::kEveryRank, {3});

  request(3, {1});
  leader_.progress(kStart);

  expect_ids(ForwardedRequest::kEveryRank, {1});
}

TEST_F(HostLeaderTest, AnIdThatHasWaitedIsPassedOnRankByRankAndTheLastOneFollows) {
  request(3, {1, 2});
  request(1, {1});
  leader_.progress(kStart);
  ASSERT_EQ(kLate, leader_.due_ns());
  leader_.progress(kLate - 1);
  expect_nothing();

  leader_.progress(kLate);

  expect_ids(1, {1});
  expect_ids(3, {1, 2});
  EXPECT_FALSE(leader_.due_ns().has_value());
  request(2, {1, 2});
  leader_.progress(kLate);
  expect_ids(2, {1, 2});
  request(1, {2});
  leader_.progress(kLate);
  expect_ids(1, {2});

  request_all({1, 2});  // the next round
  leader_.progress(kLate);
  expect_ids(ForwardedRequest::kEveryRank, {1, 2});
}

TEST_F(HostLeaderTest, TensorsInFullArePassedOnAtOnceAndIdsWait) {
  request(2, {4}, {item("new")});
  leader_.progress(kStart);

  const ForwardedRequest next = forwarded();

  EXPECT_EQ(2, next.rank);
  EXPECT_TRUE(next.request.cached.empty());
  ASSERT_EQ(1u, next.request.items.size());
  EXPECT_EQ("new", next.request.items[0].name);
  EXPECT_EQ(7u, next.request.config_hash);
  expect_nothing();
}

TEST_F(HostLeaderTest, AJoinComesAfterAllThatItsRankHasRequestedAndEndsTheHolding) {
  request(2, {4});
  leader_.progress(kStart);
  request(2, {5}, {item(kJoinName, OpKind::kJoin)});
  leader_.progress(kStart);
  request(1, {4});
  leader_.progress(kStart);

  expect_ids(2, {4});
  const ForwardedRequest join = forwarded();
  EXPECT_EQ(2, join.rank);
  EXPECT_EQ(std::vector<CacheId>{5}, join.request.cached);
  EXPECT_EQ(1u, join.request.items.size());
  expect_ids(1, {4});

  Response joined;
  joined.type = Response::Type::kJoined;
  answer(joined);
  request_all({4});
  leader_.progress(kStart);
  expect_ids(ForwardedRequest::kEveryRank, {4});
}

TEST_F(HostLeaderTest, AMeasurementOfLinksLeavesWhatItHoldsBack) {
  request(1, {4});
  leader_.progress(kStart);
  Response rates;
  rates.type = Response::Type::kHostRates;
  answer(rates);

  request(2, {4});
  request(3, {4});
  leader_.progress(kStart);

  expect_ids(ForwardedRequest::kEveryRank, {4});
}

TEST_F(HostLeaderTest, IdsThatAreHeldGoWithTheConfigOfTheirRank) {
  request(1, {1});
  request(2, {1});
  request(3, {2}, {}, 1);
  leader_.progress(kStart);

  expect_ids(1, {1}, 0);
  expect_ids(2, {1}, 0);
  request(3, {1}, {}, 1);
  request(1, {2}, {}, 1);
  request(2, {2}, {}, 1);
  leader_.progress(kStart);
  expect_ids(3, {1}, 1);
  expect_ids(ForwardedRequest::kEveryRank, {2}, 1);
}

TEST_F(HostLeaderTest, AfterAnAnswerIdsAreHeldAgainThoughNotAllRanksHadAskedByThem) {
  request(2, {1});
  leader_.progress(kStart);
  leader_.progress(kLate);
  expect_ids(2, {1});
  Response response;  // the others have asked by name
  response.cached = {1};

  answer(response);

  request(3, {1});
  request(1, {1});
  leader_.progress(kLate);
  expect_nothing();
  request(2, {1});
  leader_.progress(kLate);
  expect_ids(ForwardedRequest::kEveryRank, {1});
}

TEST_F(HostLeaderTest, AnIdRequestedTwiceIsForRankZeroToRefuse) {
  request(2, {1});
  request(2, {1});
  leader_.progress(kStart);

  expect_ids(2, {1});
}

TEST_F(HostLeaderTest, ARequestThatCannotBeReadNamesItsRank) {
  ASSERT_TRUE(cluster_.transport(3).try_send_request(Bytes(5)));

  leader_.progress(kStart);

  const std::optional<Failure> failure = cluster_.transport(2).failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(3, failure->culprit_rank);
  EXPECT_NE(std::string::npos, failure->text.find("rank 3 sent a request that cannot be read")) << failure->text;
}

TEST_F(HostLeaderTest, ResponsesAndThenTheGoodbyeOfRankZeroReachTheHost) {
  const Bytes response = encode(Response());
  ASSERT_TRUE(cluster_.transport(kCoordinator).try_publish_response(response));
  cluster_.transport(kCoordinator).depart();

  EXPECT_TRUE(eventually([&] {
    leader_.progress(kStart);
    return cluster_.transport(3).has_departed(kCoordinator);
  }));

  for (const int rank : {1, 2, 3}) {
    Bytes frame;
    EXPECT_TRUE(cluster_.transport(rank).try_receive_response(frame)) << rank;
    EXPECT_EQ(response, frame);
    EXPECT_FALSE(cluster_.transport(rank).try_receive_response(frame));
  }
}

TEST_F(HostLeaderTest, ARankThatReadsSlowlyDelaysResponsesAndLosesNone) {
  constexpr int kResponses = 60;
  const Bytes response(100'000);
  Bytes frame;
  int published = 0;
  int received = 0;
  EXPECT_TRUE(eventually([&] {
    while (published < kResponses && cluster_.transport(kCoordinator).try_publish_response(response)) {
      ++published;
      cluster_.transport(kCoordinator).try_receive_response(frame);
    }
    leader_.progress(kStart);
    return leader_.is_congested();
  }));

  EXPECT_TRUE(eventually([&] {
    leader_.progress(kStart);
    while (published < kResponses && cluster_.transport(kCoordinator).try_publish_response(response)) {
      ++published;
      cluster_.transport(kCoordinator).try_receive_response(frame);
    }
    for (const int rank : {1, 2, 3}) {
      received += cluster_.transport(rank).try_receive_response(frame) ? 1 : 0;
    }
    return received == 3 * kResponses;
  })) << received;
  EXPECT_FALSE(leader_.is_congested());
}

}  // namespace
}  // namespace ringtune
