// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/frame_stream.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "transport/cluster.h"

namespace ringtune {
namespace {

using Outcome = FrameDecoder::Outcome;
using testing::bytes_of;

const std::vector<Frame>& sample_frames() {
  static const std::vector<Frame> frames{{FrameType::kRequest, bytes_of(300, 1)},
                                         {FrameType::kDepart, {}},
                                         {FrameType::kResponse, bytes_of(1, 2)},
                                         {FrameType::kAbort, bytes_of(70, 3)}};
  return frames;
}

Bytes stream_of(const std::vector<Frame>& frames) {
  Bytes stream;
  for (const Frame& frame : frames) {
    const Bytes bytes = encode_frame(frame.type, frame.payload);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  return stream;
}

// All whole frames there are; false if the stream is broken.
bool take_all(FrameDecoder& decoder, std::vector<Frame>& frames) {
  Frame frame;
  Outcome outcome = Outcome::kIncomplete;
  while ((outcome = decoder.next(frame)) == Outcome::kFrame) {
    frames.push_back(frame);
  }
  return outcome == Outcome::kIncomplete;
}

void expect_samples(const std::vector<Frame>& frames) {
  ASSERT_EQ(sample_frames().size(), frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(sample_frames()[i].type, frames[i].type);
    EXPECT_EQ(sample_frames()[i].payload, frames[i].payload);
  }
}

TEST(FrameStream, FramesAreTheSameInPiecesOfAnySize) {
  const Bytes stream = stream_of(sample_frames());
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameDecoder decoder;
    std::vector<Frame> frames;

    for (size_t at = 0; at < stream.size(); at += piece) {
      decoder.feed(ByteSpan(stream).subspan(at, std::min(piece, stream.size() - at)));
      ASSERT_TRUE(take_all(decoder, frames));
    }

    expect_samples(frames);
  }
}

TEST(FrameStream, AFrameOfTheLargestSizePasses) {
  const Bytes largest = bytes_of(kMaxPayloadBytes, 1);
  FrameDecoder decoder;
  Frame frame;

  decoder.feed(encode_frame(FrameType::kResponse, largest));

  ASSERT_EQ(Outcome::kFrame, decoder.next(frame));
  EXPECT_EQ(largest, frame.payload);
}

TEST(FrameStream, ALengthAboveTheLimitBreaksTheStreamBeforeItsPayloadComes) {
  FrameDecoder decoder;
  std::vector<Frame> frames;
  const Bytes header = encode_frame(FrameType::kResponse, Bytes(kMaxPayloadBytes + 1));

  decoder.feed(ByteSpan(header).first(5));

  EXPECT_FALSE(take_all(decoder, frames));
  EXPECT_TRUE(frames.empty());
}

TEST(FrameStream, AnUnknownTypeBreaksTheStreamForGood) {
  FrameDecoder decoder;
  std::vector<Frame> frames;
  Bytes unknown = encode_frame(FrameType::kRequest, {});
  unknown[4] = static_cast<std::byte>(kFrameTypeCount);

  decoder.feed(unknown);
  EXPECT_FALSE(take_all(decoder, frames));
  decoder.feed(stream_of(sample_frames()));

  EXPECT_FALSE(take_all(decoder, frames));
  EXPECT_TRUE(frames.empty());
}

TEST(FrameStream, GarbageYieldsNoMoreThanItHas) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Bytes garbage(random() % 200);
    // Small lengths are likely, so that some garbage passes for frames.
    std::generate(garbage.begin(), garbage.end(), [&] { return static_cast<std::byte>(random() % 8 ? 0 : random()); });
    FrameDecoder decoder;
    std::vector<Frame> frames;

    decoder.feed(garbage);
    take_all(decoder, frames);

    EXPECT_LE(stream_of(frames).size(), garbage.size());
  }
}

TEST(FailureFrame, AFailureComesThroughWhole) {
  Failure failure;

  ASSERT_TRUE(decode(encode(Failure{StatusCode::kCollectiveTimeout, 3, "rank 3 is stopped"}), failure));

  EXPECT_EQ(StatusCode::kCollectiveTimeout, failure.code);
  EXPECT_EQ(3, failure.culprit_rank);
  EXPECT_EQ("rank 3 is stopped", failure.text);
}

TEST(FailureFrame, NothingElseIsAccepted) {
  const Bytes whole = encode(Failure{StatusCode::kPeerLostError, kNoCulprit, "text"});
  Failure failure;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode(ByteSpan(whole).first(size), failure)) << size;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, failure));
  for (const int code : {static_cast<int>(StatusCode::kOk), 8, 255}) {
    Bytes other = whole;
    other[0] = static_cast<std::byte>(code);
    EXPECT_FALSE(decode(other, failure)) << code;
  }
}

}  // namespace
}  // namespace ringtune
