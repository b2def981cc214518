// SPDX-License-Identifier: Apache-2.0
#include "engine/response_check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/config.h"
#include "collectives/message_sizes.h"

namespace ringtune {
namespace {

Submission submission(DataType dtype, ReduceOp op = ReduceOp::kSum) {
  Submission submission;
  submission.signature.kind = OpKind::kAllreduce;
  submission.signature.dtype = dtype;
  submission.signature.op = op;
  submission.signature.shape = {4};
  return submission;
}

Response response(uint64_t chunk_bytes = 64 * kKiB) {
  Response response;
  response.chunk_bytes = chunk_bytes;
  return response;
}

std::string fault(const Response& response, const std::vector<Submission>& tensors) {
  return std::string(find_fault(response, tensors));
}

const Submission kFloat = submission(DataType::kFloat32);

TEST(ResponseCheck, TensorsThatFitTogetherCanMove) {
  EXPECT_EQ("", fault(response(), {kFloat}));
  EXPECT_EQ("", fault(response(), {kFloat, kFloat}));
  EXPECT_EQ("", fault(response(kMinChunkBytes), {kFloat}));
  EXPECT_EQ("", fault(response(kMaxChunkBytes), {kFloat}));
}

TEST(ResponseCheck, AResponseNamesATensor) { EXPECT_EQ("it names no tensor", fault(response(), {})); }

TEST(ResponseCheck, ChunksNeitherVanishNorLeaveTheStage) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{64}, 64 * kKiB + 1, 2 * kMaxChunkBytes, ~uint64_t{0}}) {
    EXPECT_EQ("its chunks have a size that is not allowed", fault(response(bytes), {kFloat})) << bytes;
  }
}

TEST(ResponseCheck, BytesInFlightHaveALimit) {
  Response deep = response();
  deep.in_flight_bytes = kMaxInFlightBytes;
  EXPECT_EQ("", fault(deep, {kFloat}));

  deep.in_flight_bytes = kMaxInFlightBytes + 1;
  EXPECT_EQ("it has more bytes in flight than are allowed", fault(deep, {kFloat}));
}

TEST(ResponseCheck, NcclTakesNoTensorOfTheHost) {
  Response by_nccl = response();
  by_nccl.is_for_nccl = true;

  EXPECT_EQ("it sends a tensor of the host by NCCL", fault(by_nccl, {kFloat}));
}

TEST(ResponseCheck, TensorsOfSeveralKindsAreNotFused) {
  const std::string expected = "it fuses tensors that do not fit together";

  EXPECT_EQ(expected, fault(response(), {kFloat, submission(DataType::kInt64)}));
  EXPECT_EQ(expected, fault(response(), {submission(DataType::kFloat32, ReduceOp::kAdasum), kFloat}));
}

}  // namespace
}  // namespace ringtune
