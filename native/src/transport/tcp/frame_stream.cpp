// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/frame_stream.h"

#include <algorithm>

#include "wire/codec.h"

namespace ringtune {
namespace {

constexpr size_t kHeaderBytes = sizeof(uint32_t) + sizeof(uint8_t);
constexpr int kFailureCodeCount = static_cast<int>(StatusCode::kShutDown) + 1;

}  // namespace

Bytes encode_frame(FrameType type, ByteSpan payload) {
  Writer writer;
  writer.put(static_cast<uint32_t>(payload.size()));
  writer.put(type);
  Bytes bytes = writer.release();
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Bytes encode(const Failure& failure) {
  Writer writer;
  writer.put(static_cast<uint8_t>(failure.code));
  writer.put(static_cast<int32_t>(failure.culprit_rank));
  writer.put_string(failure.text);
  return writer.release();
}

bool decode(ByteSpan payload, Failure& failure) {
  Reader reader(payload);
  failure.code = reader.get_enum<StatusCode>(kFailureCodeCount);
  failure.culprit_rank = reader.get<int32_t>();
  failure.text = reader.get_string();
  return reader.is_at_end() && failure.code != StatusCode::kOk;
}

void FrameDecoder::feed(ByteSpan bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

FrameDecoder::Outcome FrameDecoder::next(Frame& frame) {
  const ByteSpan unread = ByteSpan(buffer_).subspan(at_);
  if (unread.size() < kHeaderBytes) {
    return Outcome::kIncomplete;
  }
  Reader reader(unread);
  const size_t size = reader.get<uint32_t>();
  frame.type = reader.get_enum<FrameType>(kFrameTypeCount);
  if (!reader.is_intact() || size > kMaxPayloadBytes) {
    return Outcome::kBroken;
  }
  if (unread.size() - kHeaderBytes < size) {
    return Outcome::kIncomplete;
  }
  const ByteSpan payload = unread.subspan(kHeaderBytes, size);
  frame.payload.assign(payload.begin(), payload.end());
  at_ += kHeaderBytes + size;
  return Outcome::kFrame;
}

}  // namespace ringtune
