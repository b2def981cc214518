// SPDX-License-Identifier: Apache-2.0
#include "wire/messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "base/other_value.h"

namespace ringtune {
namespace {

Request sample_request() {
  Request request;
  request.config_epoch = 7;
  request.config_hash = 0xabcdef;
  request.cached = {3, 4, 5, 42};
  request.items.push_back(
      {"layer4.weight",
       {OpKind::kAllreduce, DataType::kFloat32, ReduceOp::kAverage, 0, 0.5, 2, {64, 128}, "g", 3, MemoryKind::kCuda},
       4096});
  return request;
}

Response sample_response(Response::Type type) {
  Response response;
  response.type = type;
  response.cycle = 1234;
  response.config_epoch = 3;
  response.algorithm = 1;
  response.chunk_bytes = 65536;
  response.in_flight_bytes = 1 << 20;
  response.cached = {5, 9, 2};
  response.tensors = {
      {kNoCacheId, "bias", Signature{OpKind::kAllreduce, DataType::kInt8, ReduceOp::kSum, 0, 1, 1, {3}}},
      {6, "weight", std::nullopt}};
  response.last_joined_rank = 2;
  response.is_tuning_finished = true;
  response.from_step = 17;
  response.config.allreduce_algorithm = "direct";
  response.error_code = StatusCode::kMismatchError;
  response.error_text = "shapes differ";
  return response;
}

TEST(Messages, ARequestSurvivesTheRoundTrip) {
  const Request sent = sample_request();

  Request received;
  ASSERT_TRUE(decode(encode(sent), received));

  EXPECT_EQ(7u, received.config_epoch);
  EXPECT_EQ(0xabcdefu, received.config_hash);
  EXPECT_EQ(sent.cached, received.cached);
  ASSERT_EQ(1u, received.items.size());
  EXPECT_EQ("layer4.weight", received.items[0].name);
  EXPECT_EQ(sent.items[0].signature, received.items[0].signature);
  EXPECT_EQ(4096u, received.items[0].arena_offset);
}

TEST(Messages, EveryKnobSurvivesTheRoundTrip) {
  for_each_knob([](const auto& knob) {
    Response sent = sample_response(Response::Type::kConfigSwitch);
    sent.config.*knob.value = testing::other_value(sent.config.*knob.value);

    Response received;
    ASSERT_TRUE(decode(encode(sent), received));

    EXPECT_EQ(sent.config, received.config) << knob.name;
  });
}

// Ranks that were built apart read each other's messages. A new knob adds its value at the end.
TEST(Messages, TheWireFormatOfAConfigStaysTheSame) {
  constexpr std::array<unsigned char, 52> kExpected{
      1,                                    // type
      2, 0,    0, 0, 0,   0,   0,    0,     // cycle
      3, 0,    0, 0, 0,   0,   0,    0,     // config_epoch
      0, 0,    1, 0, 0,   0,   0,    0,     // fusion_bytes
      0, 0,    0, 0, 0,   0,   0xf0, 0x3f,  // cycle_ms
      1, 0,    1,                           // hierarchical_allreduce, hierarchical_allgather, response_cache
      4, 0,    0, 0, 'r', 'i', 'n',  'g',   // allreduce_algorithm
      0, 0x80, 0, 0, 0,   0,   0,    0,     // chunk_bytes
  };
  Response sent;
  sent.type = Response::Type::kConfigSwitch;
  sent.cycle = 2;
  sent.config_epoch = 3;
  sent.config = {0x10000, 1.0, true, false, true, "ring", 0x8000};

  const Bytes frame = encode(sent);

  ASSERT_LE(kExpected.size(), frame.size());
  EXPECT_EQ(0, std::memcmp(frame.data(), kExpected.data(), kExpected.size()));
}

TEST(Messages, AForwardedRequestSurvivesTheRoundTrip) {
  for (const int32_t rank : {0, 3, ForwardedRequest::kEveryRank}) {
    const ForwardedRequest sent{rank, sample_request()};

    ForwardedRequest received;
    ASSERT_TRUE(decode(encode(sent), received));

    EXPECT_EQ(rank, received.rank);
    EXPECT_EQ(encode(sent), encode(received));
    EXPECT_FALSE(decode(encode(sent.request), received));
  }
}

TEST(Messages, EveryKindOfResponseSurvivesTheRoundTrip) {
  for (const auto type : {Response::Type::kCollective, Response::Type::kConfigSwitch, Response::Type::kError,
                          Response::Type::kJoined, Response::Type::kTuning, Response::Type::kHostRates}) {
    const Response sent = sample_response(type);

    Response received;
    ASSERT_TRUE(decode(encode(sent), received));

    EXPECT_EQ(sent.cycle, received.cycle);
    EXPECT_EQ(encode(sent), encode(received));
  }
}

TEST(Messages, ATornOrPaddedFrameIsRefused) {
  const Bytes whole = encode(sample_request());
  Request request;

  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode(ByteSpan(whole.data(), size), request)) << "at " << size << " bytes";
  }
  Bytes padded = whole;
  padded.push_back(std::byte{0});
  EXPECT_FALSE(decode(padded, request));
}

TEST(Messages, RandomBytesNeverReadOutOfBounds) {
  std::mt19937 random(1);
  Request request;
  ForwardedRequest forwarded;
  Response response;
  int accepted = 0;

  for (int round = 0; round < 20000; ++round) {
    Bytes frame = round % 2 == 0 ? encode(sample_request()) : encode(sample_response(Response::Type::kCollective));
    for (int change = 0; change < 4; ++change) {
      frame[random() % frame.size()] = static_cast<std::byte>(random());
    }
    accepted += decode(frame, request) ? 1 : 0;
    accepted += decode(frame, forwarded) ? 1 : 0;
    accepted += decode(frame, response) ? 1 : 0;
  }

  EXPECT_GT(accepted, 0);  // changes that hit a value, not the structure
}

TEST(Messages, ACountThatTheFrameCannotHoldIsRefused) {
  Request request;
  Bytes frame = encode(Request());
  std::fill(frame.end() - sizeof(uint32_t), frame.end(), std::byte{0xff});  // the number of items

  EXPECT_FALSE(decode(frame, request));
}

}  // namespace
}  // namespace ringtune
