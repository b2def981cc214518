// SPDX-License-Identifier: Apache-2.0
// Typed frames in a stream of bytes: length of the payload (u32), type (u8), payload.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "transport/failure.h"

namespace ringtune {

enum class FrameType : uint8_t { kRequest, kResponse, kAbort, kDepart, kHeartbeat };
inline constexpr int kFrameTypeCount = 5;

// Above the largest message (`Transport::max_frame_bytes`), far below the size that would strain memory.
inline constexpr size_t kMaxPayloadBytes = 1 << 20;

struct Frame {
  FrameType type = FrameType::kDepart;
  Bytes payload;
};

Bytes encode_frame(FrameType type, ByteSpan payload);

// The payload of kAbort.
Bytes encode(const Failure& failure);
// False for a payload that is short, has trailing bytes or values outside their range.
bool decode(ByteSpan payload, Failure& failure);

// Cuts received bytes into frames, however they arrive. Holds the arrived bytes of one frame, and no memory for
// announced ones; at a header that no sender of ours makes, it stays broken.
class FrameDecoder {
 public:
  enum class Outcome { kFrame, kIncomplete, kBroken };

  void feed(ByteSpan bytes);
  Outcome next(Frame& frame);

 private:
  Bytes buffer_;
  size_t at_ = 0;  // bytes of the buffer that are consumed
};

}  // namespace ringtune
