// SPDX-License-Identifier: Apache-2.0
// How the cost of negotiation grows with ranks: the real coordinator, leaders and codec, 2 ... 4,096 ranks that are
// frames.
//
//   ringtune_negotiation [TENSORS [RANKS_PER_HOST]]
//
// A step is one batch of every rank, all with the same tensors. *Full* requests name each tensor with its signature,
// *cached* ones by its id. Messages and bytes are per step, in and out as rank 0 sees them; processor time is that of
// rank 0's coordinator and of one other host's leader, the median step. With one rank per host no leader speaks for
// others.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "engine/coordinator.h"
#include "engine/host_leader.h"
#include "engine/pending_tensors.h"
#include "telemetry/step_recorder.h"
#include "transport/layout.h"
#include "virtual_hosts.h"
#include "wire/messages.h"

namespace ringtune::benchmarks {
namespace {

constexpr int kDefaultTensors = 161;  // tensors of ResNet-50
constexpr int kDefaultRanksPerHost = 8;
constexpr int64_t kElements = 1024;
constexpr int64_t kRankStepsPerRow = 20'000;
constexpr int kMinSteps = 5;
constexpr int kMaxSteps = 500;

int64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<int64_t>(time.tv_sec) * kNsPerS + time.tv_nsec;
}

std::vector<int> hosts_of(int world_size, int ranks_per_host) {
  std::vector<int> hosts;
  for (int rank = 0; rank < world_size; ++rank) {
    hosts.push_back(rank / ranks_per_host);
  }
  return hosts;
}

double median_us(std::vector<int64_t>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return static_cast<double>(*middle) / 1e3;
}

enum class RequestKind { kFull, kCached };

struct Cost {
  double messages_in = 0;  // per step, as all but the last two
  double bytes_in = 0;
  double messages_out = 0;
  double bytes_out = 0;
  double coordinator_us = 0;
  double leader_us = 0;
};

class Negotiation {
 public:
  Negotiation(int world_size, int tensors, int ranks_per_host)
      : log_(LogLevel::kWarning, 0), tensors_(tensors), hosts_(hosts_of(world_size, ranks_per_host)) {
    std::vector<VirtualHost*> others{nullptr};
    for (int leader = 0; leader < world_size; leader += ranks_per_host) {
      transports_.push_back(std::make_unique<VirtualHost>(leader, hosts_));
      if (leader > 0) {
        others.push_back(transports_.back().get());
        leaders_.push_back(std::make_unique<HostLeader>(*others.back(), others.back()->layout()));
      }
    }
    rank_0().connect(std::move(others));
    coordinator_ = std::make_unique<Coordinator>(rank_0(), rank_0().layout(), EngineConfig(),
                                                 StallLimits{60 * kNsPerS, 600 * kNsPerS}, steps_, queue_, log_);
  }

  Cost measure(RequestKind kind, int steps) {
    const Traffic in = rank_0().in();
    const Traffic out = rank_0().out();
    std::vector<int64_t> coordinator_times;
    std::vector<int64_t> leader_times{0};  // 0 without a leader
    const std::vector<Bytes> frames = encode_in_frames(request(kind));
    for (int step = 0; step < steps; ++step) {
      for (const auto& transport : transports_) {
        transport->submit(frames);
      }
      // Once for the requests, once for the responses.
      int64_t leader_ns = run_leaders();
      coordinator_times.push_back(run_coordinator());
      leader_ns += run_leaders();
      leader_times.push_back(leader_ns);
    }
    const auto per_step = [steps](uint64_t after, uint64_t before) {
      return static_cast<double>(after - before) / steps;
    };
    return {per_step(rank_0().in().messages, in.messages),
            per_step(rank_0().in().bytes, in.bytes),
            per_step(rank_0().out().messages, out.messages),
            per_step(rank_0().out().bytes, out.bytes),
            median_us(coordinator_times),
            median_us(leader_times)};
  }

 private:
  VirtualHost& rank_0() { return *transports_.front(); }

  int64_t run_coordinator() {
    const int64_t begin_ns = thread_cpu_ns();
    while (coordinator_->progress(now_ns())) {
    }
    const int64_t end_ns = thread_cpu_ns();
    if (const std::optional<Failure> failure = rank_0().failure()) {
      std::fprintf(stderr, "the coordinator has stopped: %s\n", failure->text.c_str());
      std::exit(1);
    }
    return end_ns - begin_ns;
  }

  // Returns the time of the last leader, nanoseconds.
  int64_t run_leaders() {
    int64_t duration_ns = 0;
    for (const auto& leader : leaders_) {
      const int64_t begin_ns = thread_cpu_ns();
      while (leader->progress(now_ns())) {
      }
      duration_ns = thread_cpu_ns() - begin_ns;
    }
    return duration_ns;
  }

  Request request(RequestKind kind) const {
    Request request{0, config_hash(EngineConfig()), {}, {}};
    for (int tensor = 0; tensor < tensors_; ++tensor) {
      if (kind == RequestKind::kFull) {
        request.items.push_back(item(tensor));
      } else {
        // The coordinator gave ids in the order in which the tensors became ready.
        request.cached.push_back(static_cast<CacheId>(tensor + 1));
      }
    }
    return request;
  }

  static RequestItem item(int tensor) {
    Signature signature;
    signature.kind = OpKind::kAllreduce;
    signature.dtype = DataType::kFloat32;
    signature.shape = {kElements};
    return {"model.layers." + std::to_string(tensor) + ".weight.gradient", signature};
  }

  Log log_;
  int tensors_;
  std::vector<int> hosts_;
  std::vector<std::unique_ptr<VirtualHost>> transports_;  // one for each host
  std::vector<std::unique_ptr<HostLeader>> leaders_;      // one for each host but the first
  StepRecorder steps_;
  SubmissionQueue queue_{{1 << 20, kNsPerMs}};
  std::unique_ptr<Coordinator> coordinator_;
};

void print_row(int world_size, const char* requests, const Cost& cost) {
  std::printf("| %d | %s | %.0f | %.1f | %.0f | %.1f | %.1f | %.1f |\n", world_size, requests, cost.messages_in,
              cost.bytes_in / 1024, cost.messages_out, cost.bytes_out / 1024, cost.coordinator_us, cost.leader_us);
}

void run(int tensors, int ranks_per_host) {
  std::printf("%d tensors per step, %d ranks per host\n\n", tensors, ranks_per_host);
  std::printf("| ranks | requests | messages in | KiB in | messages out | KiB out | us of rank 0 | us of a leader |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (int world_size = 2; world_size <= 4096; world_size *= 2) {
    Negotiation negotiation(world_size, tensors, ranks_per_host);
    const auto steps = static_cast<int>(std::clamp<int64_t>(kRankStepsPerRow / world_size, kMinSteps, kMaxSteps));
    print_row(world_size, "full", negotiation.measure(RequestKind::kFull, steps));
    print_row(world_size, "cached", negotiation.measure(RequestKind::kCached, steps));
  }
}

// An argument that is a whole number in 1 ... `most`; ends the program otherwise.
int number(const char* name, const char* text, int most) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < 1 || value > most) {
    std::fprintf(stderr, "%s is '%s'; give a number from 1 to %d\n", name, text, most);
    std::exit(2);
  }
  return static_cast<int>(value);
}

}  // namespace
}  // namespace ringtune::benchmarks

int main(int argc, char** argv) {
  using ringtune::benchmarks::number;
  const int tensors = argc > 1 ? number("TENSORS", argv[1], 60'000) : ringtune::benchmarks::kDefaultTensors;
  const int ranks_per_host = argc > 2 ? number("RANKS_PER_HOST", argv[2], ringtune::kMaxRanksPerHost)
                                      : ringtune::benchmarks::kDefaultRanksPerHost;
  ringtune::benchmarks::run(tensors, ranks_per_host);
  return 0;
}
