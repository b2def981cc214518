// SPDX-License-Identifier: Apache-2.0
// Compiled-in sizes that decide how a message moves. `_engine.engine_facts` exports them: models of the engine, such as
// ringtune.tuner.simulator, assume the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace ringtune {

// Chunk of an allreduce inside one host. A chunk costs three synchronizations, each a turn of the scheduler's where
// ranks outnumber cores; the chunks in work, a few per rank, should stay in a cache.
inline constexpr size_t kAllreduceChunkBytes = 512 * kKiB;
// Chunk of any collective between hosts: a round trip of a local network is worth some hundred KiB.
inline constexpr size_t kChunkBytesBetweenHosts = 1 * kMiB;

// Largest message that `direct` reduces. One phase less against more to reduce: see benchmarks/README.md.
inline constexpr size_t kDirectMaxBytes = 16 * kKiB;

// Largest message between hosts that goes by recursive doubling where no table was measured: up to here a step costs
// its latency, not its bytes, on all but the slowest links.
inline constexpr size_t kDoublingMaxBytes = 16 * kKiB;

// Largest part of an alltoall that may go by way of other ranks, which send it on up to log2 p times.
inline constexpr size_t kMaxForwardedBytes = 1 * kKiB;

// Largest block of a hierarchical allreduce that counterparts exchange whole: up to here a round more costs more than
// the bytes do.
inline constexpr size_t kMaxWholeBlockBytes = 16 * kKiB;
// Chunks that a stage must hold for a hierarchical allreduce to exchange some while it stages others.
inline constexpr uint64_t kOverlappedChunks = 4;

// Shortest round trip of hosts that are *distant*: below it a round costs less than it takes to plan for it.
inline constexpr int64_t kDistantRoundTripNs = 1'000'000;
// Rate of a fast link between distant hosts, 10 Gbit/s: what it holds on its way should be on its way.
inline constexpr int64_t kDistantLinkBytesPerS = 1'250'000'000;
// Limit of it. An allreduce uses three to six times as much memory for its blocks, and h + 2 times where h hosts
// exchange whole ones.
inline constexpr size_t kMaxInFlightBytes = 16 * kMiB;

// Chunks into which a message is cut at least where hosts have uneven shares and `chunk_bytes` is auto. A host without
// a share sends a chunk's contributions first and receives its results after: its link is full in both directions only
// while several chunks are on their way.
inline constexpr size_t kMinSkewedChunks = 32;
inline constexpr size_t kMinSkewedChunkBytes = 64 * kKiB;

// Bytes of a message that should be on their way between hosts at once, by the round trip: as many as a fast link
// delivers until the first of them arrive. 0 between hosts that are near: two chunks will do.
constexpr size_t in_flight_bytes(int64_t round_trip_ns) {
  if (round_trip_ns < kDistantRoundTripNs) {
    return 0;
  }
  const int64_t way_us = round_trip_ns / 2 / 1'000;
  return std::min(kMaxInFlightBytes, static_cast<size_t>(way_us * (kDistantLinkBytesPerS / 1'000'000)));
}

// Smallest gradient to which a front end gives registered memory. To bring one there takes the training thread 3 us
// and a copy; the way through the stage, which smaller ones take together, is no slower for them (with two ranks 4 us
// slower for 64 KiB, 60 us for 1 MiB).
inline constexpr size_t kMinRegisteredBytes = 64 * kKiB;

}  // namespace ringtune
