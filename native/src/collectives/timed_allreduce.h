// SPDX-License-Identifier: Apache-2.0
// Times allreduces in lockstep, to fill the algorithm table: rank 0 leads, chooses the calls, and measures the time;
// every other rank follows until the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "collectives/aligned_buffer.h"
#include "collectives/collective_context.h"

namespace ringtune {

// Calls of one allreduce, of float32, in place.
struct TimedCalls {
  size_t bytes;  // whole elements
  int algorithm;
  size_t chunk_bytes;
  uint32_t calls;
  size_t in_flight_bytes;  // see AllreduceTask
};

class TimedAllreduce {
 public:
  explicit TimedAllreduce(const CollectiveContext& context);

  // Rank 0. `begin` makes room for messages of up to `max_bytes` on every rank; `has_room` tells whether each has it.
  Status begin(size_t max_bytes, bool& has_room);
  // Checks that they can be made here: there is an algorithm, a chunk and room for them.
  Status check(const TimedCalls& calls) const;
  // Between `begin` and `end`, calls that can be made.
  Status run(const TimedCalls& calls, int64_t& elapsed_ns);
  Status end();

  // The other ranks: returns when rank 0 ends.
  Status follow();

 private:
  enum class Order : uint64_t { kBegin, kRun, kEnd };

  struct Message {
    Order order;
    TimedCalls calls;
  };

  // Tells the message to all ranks, from rank 0.
  Status exchange(Message& message);
  Status make_room(size_t max_bytes, bool& has_room);
  Status perform(const TimedCalls& calls, int64_t& elapsed_ns);
  Status call(const TimedCalls& calls, size_t bytes);
  // Between hosts: a token from every rank to every other one, in one round. Empty inside a host.
  Status meet();

  CollectiveContext context_;
  AlignedBuffer data_;
};

}  // namespace ringtune
