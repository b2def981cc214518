// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/failure_record.h"

#include <algorithm>
#include <cstring>

#include <sched.h>

#include "base/clock.h"

namespace ringtune {
namespace {

constexpr uint32_t kNone = 0;
constexpr uint32_t kWriting = 1;
constexpr uint32_t kReadable = 2;

// A rank that was killed while it wrote the record leaves it unfinished.
constexpr int64_t kWriterGraceNs = 100 * kNsPerMs;

}  // namespace

void record_failure(Segment& segment, const Failure& failure) {
  SegmentHeader& header = segment.header();
  uint32_t expected = kNone;
  if (header.failure_state.compare_exchange_strong(expected, kWriting)) {
    header.failure_code = static_cast<int32_t>(failure.code);
    header.culprit_rank = failure.culprit_rank;
    const size_t length = std::min(failure.text.size(), kFailureTextBytes - 1);
    std::memcpy(header.failure_text, failure.text.data(), length);
    header.failure_text[length] = '\0';
    header.failure_state.store(kReadable);
  }
  for (int local_rank = 0; local_rank < segment.local_size(); ++local_rank) {
    segment.block(local_rank).doorbell.ring();
  }
}

bool has_failure(Segment& segment) { return segment.header().failure_state.load() != kNone; }

std::optional<Failure> read_failure(Segment& segment) {
  SegmentHeader& header = segment.header();
  if (header.failure_state.load() == kNone) {
    return std::nullopt;
  }
  const int64_t limit_ns = now_ns() + kWriterGraceNs;
  while (header.failure_state.load() == kWriting) {
    if (now_ns() > limit_ns) {
      return Failure{StatusCode::kPeerLostError, kNoCulprit, "a rank ended while it reported a failure; see its log"};
    }
    sched_yield();
  }
  return Failure{static_cast<StatusCode>(header.failure_code), header.culprit_rank, header.failure_text};
}

}  // namespace ringtune
