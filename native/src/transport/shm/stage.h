// SPDX-License-Identifier: Apache-2.0
// The data plane in shared memory: every rank's stage, cut into slots of one chunk, and the counters that order access.
// Ranks are local ranks here, but in messages.
//
// Chunks are numbered through all collectives, which every rank executes in the same order. Chunk i of an operation
// lives in slot i % depth of each stage. A rank may overwrite a slot when every rank has drained the chunk before.
//
// Small messages that every rank reads whole are posted beside the stages. There are two slots in turn: a rank that has
// seen all posts of a number knows that all have read the posts before it, so that no wait follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/lap_times.h"
#include "base/status.h"
#include "transport/failure.h"
#include "transport/layout.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace ringtune {

// Most chunks that a stage holds at once. More slots than the pipeline needs only push each other out of the caches.
inline constexpr uint64_t kMaxStageDepth = 4;

enum class Phase : uint8_t { kStaged, kReduced, kDrained, kPosted };

class Stage {
 public:
  // `transport` of the same rank: the rank that has fallen silent, and whether to go on waiting; null where neither
  // could be known. Both it and `laps`, if given, must outlive the stage.
  Stage(std::shared_ptr<Segment> segment, const Layout& layout, int64_t timeout_ns, Transport* transport = nullptr,
        LapTimes* laps = nullptr);

  int local_rank() const { return rank_; }
  int local_size() const { return segment_->local_size(); }

  // Begins an operation of `chunks` chunks. Waits until the slots may be cut anew where the chunk size changes.
  Status begin(uint64_t chunk_bytes, uint64_t chunks);
  // Ends it: this rank needs no slot of it any more.
  void end();

  // Slots of the current operation; `chunk` counts from its beginning.
  std::byte* slot(int rank, uint64_t chunk) const;
  // Waits until this rank's slot for `chunk` may be overwritten.
  Status reserve(uint64_t chunk);

  // "This rank is through `phase` of all chunks up to and including this one."
  void publish(Phase phase, uint64_t chunk);
  Status wait_for_all(Phase phase, uint64_t chunk);
  Status wait_for(int rank, Phase phase, uint64_t chunk);

  uint64_t depth() const { return depth_; }

  // This operation's post of a rank, `kPostBytes` long.
  std::byte* post_slot(int rank) const { return segment_->post(rank, posts_); }
  // Shows this rank's post and waits for all others'. They may be read until `end_post`.
  Status exchange_posts();
  void end_post() {
    ++posts_;
    end_lap(Lap::kReduce);
  }

 private:
  SharedU64& counter(int rank, Phase phase) const;
  // Tells the peers that this rank has counted to `count`.
  void show(Phase phase, uint64_t count);
  bool is_reached(int rank, Phase phase, uint64_t count) const;
  // Waits until the ranks [first, last) have counted to `count`.
  Status wait(int first, int last, Phase phase, uint64_t count);
  Status poll_and_sleep(int first, int last, Phase phase, uint64_t count);
  // An error where a rank that is waited for has left the job, or the waiting caller wants out.
  Status check_hope(int first, int last, Phase phase, uint64_t count, int64_t since_ns);
  Status fail_departed(int rank);
  Status fail_after_timeout(int first, int last, Phase phase, uint64_t count);
  void await_better_news() const;
  void end_lap(Lap lap) {
    if (laps_ != nullptr) laps_->end(lap);
  }

  std::shared_ptr<Segment> segment_;
  Layout layout_;
  int rank_;
  int64_t timeout_ns_;
  int spins_;
  Transport* transport_;
  LapTimes* laps_;
  uint64_t base_ = 0;  // number of the operation's first chunk
  uint64_t chunks_ = 0;
  uint64_t chunk_bytes_ = 0;
  uint64_t depth_ = 2;
  uint64_t drained_by_all_ = 0;  // last value that this rank has seen
  uint64_t posts_ = 0;           // through all operations, like the chunks
};

}  // namespace ringtune
