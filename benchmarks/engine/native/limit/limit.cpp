// SPDX-License-Identifier: Apache-2.0
// The limit: how fast a float32 sum allreduce between processes of one machine can be, with no engine around it.
//
//   limit RANKS GROUP_MS MAX_CALLS SIZE_MS WORKLOAD_MS SUBJECT...
//
// A workload is one allreduce of as many bytes. Two ways, for each subject:
//   registered  the buffers are themselves in shared memory; each rank reduces its block straight from all buffers and
//               writes the result to all of them.
//   staged      the buffers are ordinary memory, as a framework's are; they are copied through stages in shared memory.
// A *block* is the part that one rank reduces, a *chunk* the part that goes through the stages at once.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "allreduce_timing.h"
#include "kernels.h"
#include "team.h"

namespace limit {
namespace {

// Largest message that every rank reduces whole, bytes. For two ranks that moves no more between the cores than
// reducing halves, with one synchronization less; for more ranks it soon moves too much.
constexpr size_t kDirectMaxBytes = 8 << 10;
constexpr size_t kDirectMaxBytesOfTwo = 256 << 10;
constexpr size_t kChunkBytes = 512 << 10;
static_assert(kDirectMaxBytesOfTwo <= kSlotBytes && kChunkBytes <= kSlotBytes);

class Registered {
 public:
  Registered(Team& team, size_t elements) : team_(team), block_(block_of(elements, team.ranks(), team.rank())) {
    for (int rank = 0; rank < team.ranks(); ++rank) {
      outputs_.push_back(team.buffer(rank) + block_.begin);
    }
    sources_.assign(outputs_.begin(), outputs_.end());
  }

  void operator()() {
    team_.barrier();
    sum(sources_, outputs_, block_.elements);
    team_.barrier();
  }

 private:
  Team& team_;
  Range block_;
  std::vector<float*> outputs_;
  std::vector<const float*> sources_;
};

// One synchronisation: all copy to their stage, then every rank reduces everything. A slot is free again because its
// readers have staged the next chunk.
class Direct {
 public:
  Direct(Team& team, float* data, size_t elements)
      : team_(team), outputs_{data}, elements_(elements), sources_(static_cast<size_t>(team.ranks())) {}

  void operator()() {
    const uint64_t chunk = team_.take_chunks(1);
    float* const data = outputs_.front();
    copy(data, elements_, team_.contribution(team_.rank(), chunk));
    publish(team_.own().staged, chunk + 1);
    for (int rank = 0; rank < team_.ranks(); ++rank) {
      sources_[static_cast<size_t>(rank)] = rank == team_.rank() ? data : team_.contribution(rank, chunk);
    }
    team_.wait_for_all(&RankCounters::staged, chunk + 1);
    sum(sources_, outputs_, elements_);
  }

 private:
  Team& team_;
  std::vector<float*> outputs_;
  size_t elements_;
  std::vector<const float*> sources_;
};

// Per chunk: a rank copies its peers' blocks into its stage (stage), reduces its own block out of its buffer and
// the peers' stages into its buffer, and copies it from there into its stage (reduce), and copies the other blocks out
// of their owners' stages (collect). A step is one of each, for three chunks in turn, so that no rank waits for fresh
// work. Between cores that share no cache, a copy overwrites data read by peers twice as fast as the sum's stores.
//
// With kSlots slots no other wait is needed. A rank that stages chunk c has collected c - 3, so that c - 3 was
// reduced everywhere; a rank that has seen all stage c knows that all have collected c - 3.
class Staged {
 public:
  Staged(Team& team, float* data, size_t elements, size_t chunk_elements)
      : team_(team), data_(data), elements_(elements), chunk_elements_(chunk_elements) {}

  void operator()() {
    const uint64_t chunks = (elements_ + chunk_elements_ - 1) / chunk_elements_;
    first_ = team_.take_chunks(chunks);
    for (uint64_t step = 0; step < chunks + 2; ++step) {
      if (step < chunks) {
        stage(step);
      }
      if (step >= 1 && step <= chunks) {
        reduce(step - 1);
      }
      if (step >= 2) {
        collect(step - 2);
      }
    }
  }

 private:
  float* data(uint64_t chunk) const { return data_ + chunk * chunk_elements_; }
  float* contribution(int rank, uint64_t chunk) const { return team_.contribution(rank, first_ + chunk); }
  float* result(int rank, uint64_t chunk) const { return team_.result(rank, first_ + chunk); }
  Range block(uint64_t chunk, int rank) const {
    return block_of(std::min(chunk_elements_, elements_ - chunk * chunk_elements_), team_.ranks(), rank);
  }

  void stage(uint64_t chunk) {
    for_peers([&](int owner) {
      const Range range = block(chunk, owner);
      copy(data(chunk) + range.begin, range.elements, contribution(team_.rank(), chunk) + range.begin);
    });
    publish(team_.own().staged, first_ + chunk + 1);
  }

  void reduce(uint64_t chunk) {
    const Range range = block(chunk, team_.rank());
    sources_.clear();
    for (int rank = 0; rank < team_.ranks(); ++rank) {
      sources_.push_back((rank == team_.rank() ? data(chunk) : contribution(rank, chunk)) + range.begin);
    }
    outputs_.assign({data(chunk) + range.begin});
    team_.wait_for_all(&RankCounters::staged, first_ + chunk + 1);
    sum(sources_, outputs_, range.elements);
    copy(outputs_.front(), range.elements, result(team_.rank(), chunk));
    publish(team_.own().reduced, first_ + chunk + 1);
  }

  void collect(uint64_t chunk) {
    for_peers([&](int owner) {
      const Range range = block(chunk, owner);
      wait_until(team_.counters(owner).reduced, first_ + chunk + 1);
      copy(result(owner, chunk), range.elements, data(chunk) + range.begin);
    });
  }

  // Each rank begins with its neighbour: they do not all read from one.
  template <typename Visit>
  void for_peers(Visit visit) const {
    for (int step = 1; step < team_.ranks(); ++step) {
      visit((team_.rank() + step) % team_.ranks());
    }
  }

  Team& team_;
  float* data_;
  size_t elements_;
  size_t chunk_elements_;
  uint64_t first_ = 0;
  std::vector<const float*> sources_;
  std::vector<float*> outputs_;
};

void measure_all(const timing::Scheme& scheme, Team& team, float* ordinary) {
  const size_t direct_max_bytes = team.ranks() == 2 ? kDirectMaxBytesOfTwo : kDirectMaxBytes;
  for (const timing::Subject& subject : scheme.subjects()) {
    const size_t elements = subject.bytes / sizeof(float);
    const auto measure = [&](const char* way, auto call, float* data) {
      timing::measure(way, subject.workload, scheme, team, call, {{data, elements}});
    };
    measure("registered", Registered(team, elements), team.buffer(team.rank()));
    if (subject.bytes <= direct_max_bytes) {
      measure("staged", Direct(team, ordinary, elements), ordinary);
    } else {
      measure("staged", Staged(team, ordinary, elements, kChunkBytes / sizeof(float)), ordinary);
    }
  }
}

void end_with_a_rank(int /*signal*/) { _exit(1); }

int run(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  const timing::Scheme scheme = timing::parse_scheme(argc, argv, 2);
  if (ranks < 2) {
    std::fprintf(stderr, "limit: %d ranks; there must be at least 2\n", ranks);
    return 2;
  }
  const size_t max_bytes = scheme.max_bytes();
  Team team(ranks, max_bytes);
  // A rank that ends early would be waited for in vain.
  std::signal(SIGCHLD, &end_with_a_rank);
  for (int rank = 1; rank < ranks && team.rank() == 0; ++rank) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::signal(SIGCHLD, SIG_DFL);
      team.become(rank);
    }
  }
  const size_t offset = kStagger * static_cast<size_t>(team.rank() + 1);
  std::byte* ordinary = map_memory(max_bytes + offset, MAP_PRIVATE) + offset;
  measure_all(scheme, team, reinterpret_cast<float*>(ordinary));
  std::signal(SIGCHLD, SIG_DFL);
  team.barrier();
  return 0;
}

}  // namespace
}  // namespace limit

int main(int argc, char** argv) { return limit::run(argc, argv); }
