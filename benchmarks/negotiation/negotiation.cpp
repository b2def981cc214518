// SPDX-License-Identifier: Apache-2.0
// How the cost of negotiation grows with ranks: the real coordinator and codec, 2 ... 4,096 ranks that are frames.
//
//   ringtune_negotiation [TENSORS]
//
// A step is one batch of every rank, all with the same tensors. *Full* requests name each tensor with its signature,
// *cached* ones by its id. Messages and bytes are per rank and step, in and out as rank 0 sees them; processor time is
// that of rank 0's coordinator, the median step.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "engine/coordinator.h"
#include "engine/pending_tensors.h"
#include "transport/layout.h"
#include "virtual_ranks.h"
#include "wire/messages.h"

namespace ringtune::benchmarks {
namespace {

constexpr int kDefaultTensors = 161;  // of ResNet-50
constexpr int64_t kElements = 1024;
constexpr int kRanksPerHost = 8;
constexpr int64_t kRankStepsPerRow = 20'000;
constexpr int kMinSteps = 5;
constexpr int kMaxSteps = 500;

int64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<int64_t>(time.tv_sec) * kNsPerS + time.tv_nsec;
}

std::vector<int> hosts_of(int world_size) {
  std::vector<int> hosts;
  for (int rank = 0; rank < world_size; ++rank) {
    hosts.push_back(rank / kRanksPerHost);
  }
  return hosts;
}

enum class RequestKind { kFull, kCached };

struct Cost {
  double messages_in = 0;  // per rank and step, as all but the last
  double bytes_in = 0;
  double messages_out = 0;
  double bytes_out = 0;
  double coordinator_us = 0;  // per step
};

class Negotiation {
 public:
  Negotiation(int world_size, int tensors)
      : ranks_(world_size),
        layout_(0, hosts_of(world_size)),
        log_(LogLevel::kWarning, 0),
        coordinator_(ranks_, layout_, EngineConfig(), {60 * kNsPerS, 600 * kNsPerS}, log_),
        tensors_(tensors) {}

  Cost measure(RequestKind kind, int steps) {
    Cost cost;
    const VirtualRanks::Traffic before = ranks_.requests();
    std::vector<int64_t> times;
    for (int step = 0; step < steps; ++step) {
      ranks_.submit(frames(kind));
      times.push_back(run_step());
      for (const Bytes& response : ranks_.take_responses()) {
        ++cost.messages_out;
        cost.bytes_out += static_cast<double>(response.size());
      }
    }
    const VirtualRanks::Traffic after = ranks_.requests();
    const double rank_steps = static_cast<double>(steps) * ranks_.world_size();
    cost.messages_in = static_cast<double>(after.messages - before.messages) / rank_steps;
    cost.bytes_in = static_cast<double>(after.bytes - before.bytes) / rank_steps;
    cost.messages_out /= steps;
    cost.bytes_out /= steps;
    std::ranges::nth_element(times, times.begin() + steps / 2);
    cost.coordinator_us = static_cast<double>(times[static_cast<size_t>(steps) / 2]) / 1e3;
    return cost;
  }

 private:
  int64_t run_step() {
    const int64_t begin_ns = thread_cpu_ns();
    while (coordinator_.progress(now_ns())) {
    }
    const int64_t end_ns = thread_cpu_ns();
    if (const std::optional<Failure> failure = ranks_.failure()) {
      std::fprintf(stderr, "the coordinator has stopped: %s\n", failure->text.c_str());
      std::exit(1);
    }
    return end_ns - begin_ns;
  }

  std::vector<Bytes> frames(RequestKind kind) const {
    Request request{0, config_hash(EngineConfig()), {}, {}};
    for (int tensor = 0; tensor < tensors_; ++tensor) {
      if (kind == RequestKind::kFull) {
        request.items.push_back(item(tensor));
      } else {
        // The coordinator gave ids in the order in which the tensors became ready.
        request.cached.push_back(static_cast<CacheId>(tensor + 1));
      }
    }
    return encode_in_frames(request);
  }

  static RequestItem item(int tensor) {
    Signature signature;
    signature.kind = OpKind::kAllreduce;
    signature.dtype = DataType::kFloat32;
    signature.shape = {kElements};
    return {"model.layers." + std::to_string(tensor) + ".weight.gradient", signature};
  }

  VirtualRanks ranks_;
  Layout layout_;
  Log log_;
  Coordinator coordinator_;
  int tensors_;
};

void print_row(int world_size, const char* requests, const Cost& cost) {
  std::printf("| %d | %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.3f |\n", world_size, requests, cost.messages_in,
              cost.bytes_in, cost.messages_out, cost.bytes_out, cost.coordinator_us, cost.coordinator_us / world_size);
}

void run(int tensors) {
  std::printf("%d tensors per step\n\n", tensors);
  std::printf("| ranks | requests | messages in | bytes in | messages out | bytes out | us per step | us per rank |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (int world_size = 2; world_size <= 4096; world_size *= 2) {
    Negotiation negotiation(world_size, tensors);
    const auto steps = static_cast<int>(std::clamp<int64_t>(kRankStepsPerRow / world_size, kMinSteps, kMaxSteps));
    print_row(world_size, "full", negotiation.measure(RequestKind::kFull, steps));
    print_row(world_size, "cached", negotiation.measure(RequestKind::kCached, steps));
  }
}

}  // namespace
}  // namespace ringtune::benchmarks

int main(int argc, char** argv) {
  const int tensors = argc > 1 ? std::atoi(argv[1]) : ringtune::benchmarks::kDefaultTensors;
  if (tensors < 1) {
    std::fprintf(stderr, "TENSORS is '%s'; give a number of at least 1\n", argv[1]);
    return 2;
  }
  ringtune::benchmarks::run(tensors);
  return 0;
}
