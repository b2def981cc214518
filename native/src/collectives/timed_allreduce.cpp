// SPDX-License-Identifier: Apache-2.0
#include "collectives/timed_allreduce.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/algorithm_table.h"
#include "collectives/broadcast.h"
#include "collectives/gather_list.h"
#include "collectives/link_movement.h"
#include "collectives/reduce_kernels.h"

namespace ringtune {
namespace {

// Size of the call before the clock starts, where the message is longer: it pays for the change of chunk.
constexpr size_t kUntimedBytes = 64 * kKiB;

}  // namespace

TimedAllreduce::TimedAllreduce(const CollectiveContext& context) : context_(context) {}

Status TimedAllreduce::begin(size_t max_bytes, bool& has_room) {
  Message message{Order::kBegin, {max_bytes, 0, 0, 0, 0}};
  if (Status s = exchange(message); !s.ok()) return s;
  return make_room(max_bytes, has_room);
}

Status TimedAllreduce::check(const TimedCalls& calls) const {
  const auto algorithms = allreduce_algorithms();
  const bool is_known = calls.algorithm >= 0 && static_cast<size_t>(calls.algorithm) < algorithms.size();
  const bool is_chunk_legal =
      calls.chunk_bytes >= kMinChunkBytes && calls.chunk_bytes <= kMaxChunkBytes && calls.chunk_bytes % kCacheLine == 0;
  if (is_known && is_chunk_legal && calls.bytes <= data_.bytes() && calls.bytes % sizeof(float) == 0 &&
      can_run(algorithms[static_cast<size_t>(calls.algorithm)], context_.layout, TensorMemory::kAny)) {
    return Status::ok_status();
  }
  return {StatusCode::kConfigError, "algorithm number " + std::to_string(calls.algorithm) + " cannot be timed with " +
                                        std::to_string(calls.bytes) + " bytes in chunks of " +
                                        std::to_string(calls.chunk_bytes) + "; there is room for " +
                                        std::to_string(data_.bytes()) + " bytes"};
}

Status TimedAllreduce::run(const TimedCalls& calls, int64_t& elapsed_ns) {
  Message message{Order::kRun, calls};
  if (Status s = exchange(message); !s.ok()) return s;
  return perform(calls, elapsed_ns);
}

Status TimedAllreduce::end() {
  Message message{Order::kEnd, {}};
  return exchange(message);
}

Status TimedAllreduce::follow() {
  bool has_room = false;
  int64_t unread_ns = 0;
  while (true) {
    Message message{};
    if (Status s = exchange(message); !s.ok()) return s;
    Status s;
    switch (message.order) {
      case Order::kBegin:
        s = make_room(message.calls.bytes, has_room);
        break;
      case Order::kRun:
        s = perform(message.calls, unread_ns);
        break;
      case Order::kEnd:
        return Status::ok_status();
    }
    if (!s.ok()) return s;
  }
}

Status TimedAllreduce::exchange(Message& message) {
  const size_t chunk_bytes = choose_chunk_bytes(EngineConfig(), context_.layout);
  return broadcast({context_, reinterpret_cast<std::byte*>(&message), sizeof(message), 0, chunk_bytes});
}

Status TimedAllreduce::make_room(size_t max_bytes, bool& has_room) {
  int32_t ranks_with_room = data_.allocate(max_bytes).ok() ? 1 : 0;
  if (ranks_with_room == 1) {
    std::memset(data_.data(), 0, max_bytes);  // every page is there before the clock starts
  }
  GatherList answer;
  auto* bytes = reinterpret_cast<std::byte*>(&ranks_with_room);
  answer.add(bytes, bytes, sizeof(ranks_with_room));
  const Reduction sum{.dtype = DataType::kInt32, .op = ReduceOp::kSum, .ranks = context_.world_size()};
  const AllreduceChoice choice = choose_allreduce(EngineConfig(), AlgorithmTable(context_.layout), context_.layout,
                                                  TensorMemory::kAny, sizeof(ranks_with_room));
  const AllreduceAlgorithm& algorithm = allreduce_algorithms()[static_cast<size_t>(choice.algorithm)];
  Status status = algorithm.run({context_, answer, sum, choice.chunk_bytes});
  has_room = ranks_with_room == context_.world_size();
  if (!has_room) {
    data_ = AlignedBuffer();
  }
  return status;
}

Status TimedAllreduce::perform(const TimedCalls& calls, int64_t& elapsed_ns) {
  if (Status s = check(calls); !s.ok()) return s;  // a follower checks calls that it received
  if (Status s = call(calls, std::min(calls.bytes, kUntimedBytes)); !s.ok()) return s;
  // The order reaches the ranks one after the other, and recursive doubling would hide that delay in its rounds. After
  // two meetings all begin at once. One more, whose duration is that of the second, tells of the last rank's end.
  if (Status s = meet(); !s.ok()) return s;
  const int64_t meeting_ns = now_ns();
  if (Status s = meet(); !s.ok()) return s;
  const int64_t start_ns = now_ns();
  for (uint32_t done = 0; done < calls.calls; ++done) {
    if (Status s = call(calls, calls.bytes); !s.ok()) return s;
  }
  if (Status s = meet(); !s.ok()) return s;
  elapsed_ns = std::max<int64_t>(1, now_ns() - start_ns - (start_ns - meeting_ns));
  return Status::ok_status();
}

Status TimedAllreduce::meet() {
  if (context_.is_one_host()) {
    return Status::ok_status();
  }
  const auto ranks = static_cast<size_t>(context_.world_size());
  const Bytes token(1);
  Bytes tokens(ranks);
  const std::vector<ByteSpan> outgoing(ranks, token);
  std::vector<MutableByteSpan> arriving;
  for (std::byte& each : tokens) {
    arriving.emplace_back(&each, 1);
  }
  return exchange_with_all(context_, outgoing, arriving);
}

Status TimedAllreduce::call(const TimedCalls& calls, size_t bytes) {
  GatherList list;
  list.add(data_.data(), data_.data(), bytes);
  const Reduction sum{.dtype = DataType::kFloat32, .op = ReduceOp::kSum, .ranks = context_.world_size()};
  const AllreduceAlgorithm& algorithm = allreduce_algorithms()[static_cast<size_t>(calls.algorithm)];
  return algorithm.run({context_, list, sum, calls.chunk_bytes, false, calls.in_flight_bytes});
}

}  // namespace ringtune
