// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/stage.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>

#include "base/clock.h"
#include "base/pause.h"
#include "base/text.h"
#include "transport/first_failure.h"
#include "transport/peer_name.h"
#include "transport/shm/failure_record.h"

namespace ringtune {
namespace {

// Waiting: spin while the peer is surely running, yield while it may be, then sleep. Where ranks outnumber cores, a
// waiter that spins keeps the peer from running at all, and one that sleeps too early pays for being woken.
constexpr int kSpins = 200;
constexpr int kYields = 500;
// On a machine that is busy elsewhere so many yields may take half a minute, in which the thread checks no other event.
constexpr int64_t kMaxYieldNs = 100 * kNsPerMs;
constexpr int kYieldsPerLook = 16;
// Bounds the time in which a timeout is noticed; wake-ups come by the doorbell.
constexpr int64_t kSleepNs = 100 * kNsPerMs;

// A neighbour that waits for another host reaches its limit at about the same time, and knows more.
constexpr int64_t kBetterNewsNs = 300 * kNsPerMs;
constexpr auto kBetterNewsLook = std::chrono::milliseconds(2);

template <typename Condition>
bool poll_briefly(int spins, Condition is_done) {
  for (int spin = 0; spin < spins; ++spin) {
    if (is_done()) {
      return true;
    }
    pause_briefly();
  }
  int64_t limit_ns = 0;
  for (int yield = 0; yield < kYields; ++yield) {
    if (is_done()) {
      return true;
    }
    sched_yield();
    if (yield % kYieldsPerLook == kYieldsPerLook - 1) {
      const int64_t now = now_ns();
      limit_ns = limit_ns == 0 ? now + kMaxYieldNs : limit_ns;
      if (now > limit_ns) {
        return false;
      }
    }
  }
  return false;
}

// Laps that end around a phase, by its number.
struct PhaseLaps {
  Lap shown;    // when a rank shows that it has reached it
  Lap before;   // when it begins to wait for others to reach it
  Lap awaited;  // when they have
};
constexpr std::array<PhaseLaps, 4> kPhaseLaps{{
    {Lap::kCopyIn, Lap::kReduce, Lap::kAwaitStaged},
    {Lap::kReduce, Lap::kCopyOut, Lap::kAwaitReduced},
    {Lap::kCopyOut, Lap::kCopyIn, Lap::kAwaitRoom},
    {Lap::kPost, Lap::kPost, Lap::kAwaitPosts},
}};

const PhaseLaps& laps_of(Phase phase) { return kPhaseLaps[static_cast<size_t>(phase)]; }

// Those that this process may run on. It fails only on machines with more than the set can name.
int core_count() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : CPU_SETSIZE;
}

}  // namespace

Stage::Stage(std::shared_ptr<Segment> segment, const Layout& layout, int64_t timeout_ns, Transport* transport,
             LapTimes* laps)
    : segment_(std::move(segment)),
      layout_(layout),
      rank_(layout.local_rank()),
      timeout_ns_(timeout_ns),
      spins_(segment_->local_size() <= core_count() ? kSpins : 0),
      transport_(transport),
      laps_(laps) {}

Status Stage::begin(uint64_t chunk_bytes, uint64_t chunks) {
  if (chunk_bytes != chunk_bytes_) {
    if (Status s = wait(0, local_size(), Phase::kDrained, base_); !s.ok()) return s;
    chunk_bytes_ = chunk_bytes;
    depth_ = std::min(kMaxStageDepth, kStageBytes / chunk_bytes);
  }
  chunks_ = chunks;
  return Status::ok_status();
}

// The other counters catch up when they are next used: no rank waits for their past values.
void Stage::end() {
  if (chunks_ > 0 && !is_reached(rank_, Phase::kDrained, base_ + chunks_)) {
    publish(Phase::kDrained, chunks_ - 1);
  }
  base_ += chunks_;
  chunks_ = 0;
}

std::byte* Stage::slot(int rank, uint64_t chunk) const {
  return segment_->stage(rank) + (base_ + chunk) % depth_ * chunk_bytes_;
}

Status Stage::reserve(uint64_t chunk) {
  const uint64_t number = base_ + chunk;
  if (number < drained_by_all_ + depth_) {
    return Status::ok_status();
  }
  if (Status s = wait(0, local_size(), Phase::kDrained, number - depth_ + 1); !s.ok()) return s;
  drained_by_all_ = number - depth_ + 1;
  return Status::ok_status();
}

Status Stage::exchange_posts() {
  show(Phase::kPosted, posts_ + 1);
  return wait(0, local_size(), Phase::kPosted, posts_ + 1);
}

void Stage::publish(Phase phase, uint64_t chunk) { show(phase, base_ + chunk + 1); }

void Stage::show(Phase phase, uint64_t count) {
  counter(rank_, phase).store(count);  // before the doorbells are looked at; see there
  for (int peer = 0; peer < local_size(); ++peer) {
    if (peer != rank_) {
      segment_->block(peer).doorbell.ring();
    }
  }
  end_lap(laps_of(phase).shown);
}

Status Stage::wait_for_all(Phase phase, uint64_t chunk) { return wait(0, local_size(), phase, base_ + chunk + 1); }

Status Stage::wait_for(int rank, Phase phase, uint64_t chunk) { return wait(rank, rank + 1, phase, base_ + chunk + 1); }

SharedU64& Stage::counter(int rank, Phase phase) const {
  RankBlock& block = segment_->block(rank);
  switch (phase) {
    case Phase::kStaged:
      return block.staged;
    case Phase::kReduced:
      return block.reduced;
    case Phase::kDrained:
      return block.drained;
    case Phase::kPosted:
      break;
  }
  return block.posted;
}

bool Stage::is_reached(int rank, Phase phase, uint64_t count) const { return counter(rank, phase).load() >= count; }

Status Stage::wait(int first, int last, Phase phase, uint64_t count) {
  end_lap(laps_of(phase).before);
  Status status = poll_and_sleep(first, last, phase, count);
  end_lap(laps_of(phase).awaited);
  return status;
}

Status Stage::poll_and_sleep(int first, int last, Phase phase, uint64_t count) {
  const auto is_done = [&] {
    while (first < last && is_reached(first, phase, count)) {
      ++first;
    }
    return first == last;
  };
  if (poll_briefly(spins_, is_done)) {
    return Status::ok_status();
  }
  Doorbell& doorbell = segment_->block(rank_).doorbell;
  const int64_t since_ns = now_ns();
  while (now_ns() <= since_ns + timeout_ns_) {
    const uint32_t ticket = doorbell.announce(Sleeper::kDriver);
    const bool is_through = is_done();
    if (is_through || has_failure(*segment_)) {
      doorbell.cancel(Sleeper::kDriver);
      return is_through ? Status::ok_status() : read_failure(*segment_)->status();
    }
    if (Status s = check_hope(first, last, phase, count, since_ns); !s.ok()) {
      doorbell.cancel(Sleeper::kDriver);
      return s;
    }
    doorbell.sleep(Sleeper::kDriver, ticket, kSleepNs);
  }
  return fail_after_timeout(first, last, phase, count);
}

Status Stage::check_hope(int first, int last, Phase phase, uint64_t count, int64_t since_ns) {
  for (int rank = first; rank < last; ++rank) {
    // In this order: once a rank's departure is seen, its earlier counts are, too.
    if (segment_->block(rank).has_departed.load() != 0 && !is_reached(rank, phase, count)) {
      return fail_departed(rank);
    }
  }
  const bool is_interrupted = transport_ != nullptr && transport_->is_interrupted(since_ns);
  return is_interrupted ? give_up_interrupted(*transport_) : Status::ok_status();
}

Status Stage::fail_departed(int rank) {
  const int world_rank = layout_.local_ranks()[static_cast<size_t>(rank)];
  record_failure(*segment_, {StatusCode::kPeerLostError, world_rank,
                             "rank " + std::to_string(world_rank) +
                                 " left the job (shutdown) while other ranks wait for it in a collective that it had "
                                 "submitted; synchronize every operation before shutdown()"});
  return read_failure(*segment_)->status();
}

Status Stage::fail_after_timeout(int first, int last, Phase phase, uint64_t count) {
  std::vector<int> missing;
  for (int rank = first; rank < last; ++rank) {
    if (!is_reached(rank, phase, count)) {
      missing.push_back(layout_.local_ranks()[static_cast<size_t>(rank)]);
    }
  }
  int culprit = missing.empty() ? kNoCulprit : missing.front();
  std::string cause;
  if (const int silent = transport_ != nullptr ? transport_->silent_rank() : kNoCulprit; silent != kNoCulprit) {
    culprit = silent;
    cause = describe_silence(*transport_, layout_, {}, silent) + "; ";
  } else if (layout_.host_count() > 1) {
    await_better_news();
  }
  record_failure(*segment_, {StatusCode::kCollectiveTimeout, culprit,
                             cause + format_ranks(missing) + " did not move on within a running collective for " +
                                 format_seconds(timeout_ns_) + " (noticed by rank " + std::to_string(layout_.rank()) +
                                 "); see whether it is stopped, swapped out or its network is down, or raise "
                                 "RINGTUNE_TIMEOUT_S"});
  return read_failure(*segment_)->status();
}

void Stage::await_better_news() const {
  const int64_t limit_ns = now_ns() + kBetterNewsNs;
  while (!has_failure(*segment_) && now_ns() < limit_ns) {
    std::this_thread::sleep_for(kBetterNewsLook);
  }
}

}  // namespace ringtune
