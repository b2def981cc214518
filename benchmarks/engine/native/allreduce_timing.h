// SPDX-License-Identifier: Apache-2.0
// Timing of compiled programs, the same in each, so that they differ in the reduction alone. Its twin
// for programs in Python is ringtune.measuring.bench.timing; `ringtune bench` gives both the same numbers.
//
// A *call* sums some float32 tensors over all ranks, in place: one of a given size, or the gradients of a workload's
// step. A *group* is as many calls back to back as take about `group_s`: the clock is read around groups, so that the
// clock is not measured. A group's time divided by its calls is one value.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace timing {

// The gradients of a step, in the order in which they are submitted.
struct Workload {
  std::string name;
  std::vector<size_t> tensors_bytes;
};

// Subject of a measurement: a single allreduce, or a workload's gradients.
struct Subject {
  std::string workload;  // empty for a single allreduce
  size_t bytes;
};

struct Scheme {
  double group_s;
  long max_calls;     // calls of a group
  double size_s;      // about how long all groups of a size take
  double workload_s;  // seconds of a workload
  std::vector<size_t> sizes_bytes;
  std::vector<Workload> workloads;

  // All of it, each as one tensor.
  std::vector<Subject> subjects() const {
    std::vector<Subject> all;
    for (const size_t bytes : sizes_bytes) {
      all.push_back({"", bytes});
    }
    for (const Workload& workload : workloads) {
      all.push_back({workload.name, 0});
      for (const size_t bytes : workload.tensors_bytes) {
        all.back().bytes += bytes;
      }
    }
    return all;
  }
  size_t max_bytes() const {
    size_t bytes = 0;
    for (const Subject& subject : subjects()) {
      bytes = std::max(bytes, subject.bytes);
    }
    return bytes;
  }
};

inline constexpr long kMinGroups = 5;
inline constexpr long kMaxGroups = 200;
inline constexpr double kMostOverrun = 5.0;  // later groups may be far slower than the first (ranks outnumber cores)

// Parses NAME:TENSOR=BYTES,...; no tensor's name has a comma.
inline Workload parse_workload(const std::string& argument) {
  size_t begin = argument.find(':');
  Workload workload{argument.substr(0, begin), {}};
  while (begin != std::string::npos) {
    const size_t end = argument.find(',', begin + 1);
    const size_t number = argument.rfind('=', end == std::string::npos ? end : end - 1) + 1;
    workload.tensors_bytes.push_back(std::strtoull(argument.c_str() + number, nullptr, 10));
    begin = end;
  }
  return workload;
}

// Parses the arguments GROUP_MS MAX_CALLS SIZE_MS WORKLOAD_MS SUBJECT..., which begin at `first`; a subject is a number
// of bytes or a workload.
inline Scheme parse_scheme(int argc, char** argv, int first) {
  if (argc < first + 5) {
    std::fprintf(stderr, "%s: expected ... GROUP_MS MAX_CALLS SIZE_MS WORKLOAD_MS SUBJECT...\n", argv[0]);
    std::exit(2);
  }
  const auto seconds = [argv](int argument) { return std::atof(argv[argument]) / 1e3; };
  Scheme scheme{seconds(first), std::atol(argv[first + 1]), seconds(first + 2), seconds(first + 3), {}, {}};
  for (int argument = first + 4; argument < argc; ++argument) {
    const std::string subject = argv[argument];
    if (subject.find(':') == std::string::npos) {
      scheme.sizes_bytes.push_back(std::strtoull(argv[argument], nullptr, 10));
    } else {
      scheme.workloads.push_back(parse_workload(subject));
    }
  }
  return scheme;
}

inline long bounded(double count, long low, long high) {
  return std::clamp(std::lround(std::min(count, static_cast<double>(high))), low, high);
}

// Seconds that a group took. `team.barrier()` returns when every rank has called it.
template <typename Team, typename Call>
double time_group(Team& team, Call& call, long calls) {
  team.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (long done = 0; done < calls; ++done) {
    call();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Microseconds per call, one value per group, ascending; all groups take about `all_s`, and end where they take far
// longer. `team.agree(number)` returns rank 0's number on every rank.
template <typename Team, typename Call>
std::vector<double> time_calls(const Scheme& scheme, double all_s, Team& team, Call call) {
  long calls = 1;
  for (int look = 0; look < 3; ++look) {  // the first ones are slower than later ones, and are the warm-up
    const double call_s = time_group(team, call, calls) / static_cast<double>(calls);
    calls = team.agree(bounded(scheme.group_s / call_s, 1, scheme.max_calls));
  }
  const double group_s = time_group(team, call, calls);
  const long groups = team.agree(bounded(all_s / group_s, kMinGroups, kMaxGroups));
  std::vector<double> call_us;
  double total_s = 0;
  const auto is_enough = [&] { return std::ssize(call_us) >= kMinGroups && total_s > kMostOverrun * all_s; };
  for (long group = 0; group < groups && team.agree(is_enough()) == 0; ++group) {
    const double taken_s = time_group(team, call, calls);
    call_us.push_back(taken_s / static_cast<double>(calls) * 1e6);
    total_s += taken_s;
  }
  std::sort(call_us.begin(), call_us.end());
  return call_us;
}

// The value below which the share lies, of ascending values.
inline double quantile(const std::vector<double>& ascending, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(ascending.size())));
  return ascending[std::max<size_t>(rank, 1) - 1];
}

inline void print_row(const std::string& way, const Subject& subject, int ranks, const std::vector<double>& call_us) {
  std::printf("{\"way\": \"%s\", \"workload\": \"%s\", \"bytes\": %zu, \"ranks\": %d, ", way.c_str(),
              subject.workload.c_str(), subject.bytes, ranks);
  std::printf("\"us_median\": %.4f, \"us_p99\": %.4f}\n", quantile(call_us, 0.5), quantile(call_us, 0.99));
  std::fflush(stdout);
}

using Tensor = std::span<float>;

// Small integers, whose float32 sums are exact in any order; no two tensors in a row hold the same ones.
inline size_t pattern(size_t tensor, size_t element) { return (element + tensor) % 251; }

inline void fill(const std::vector<Tensor>& tensors, int rank) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (size_t i = 0; i < tensors[t].size(); ++i) {
      tensors[t][i] = static_cast<float>(pattern(t, i) + static_cast<size_t>(rank));
    }
  }
}

// Returns whether a tensor is the sum of the patterns that `fill` wrote on all ranks.
inline bool is_sum(const std::vector<Tensor>& tensors, size_t tensor, int ranks) {
  const size_t of_ranks = static_cast<size_t>(ranks) * static_cast<size_t>(ranks - 1) / 2;
  for (size_t i = 0; i < tensors[tensor].size(); ++i) {
    if (tensors[tensor][i] != static_cast<float>(pattern(tensor, i) * static_cast<size_t>(ranks) + of_ranks)) {
      return false;
    }
  }
  return true;
}

// Runs a call on numbers whose sums are known; a program that computes anything else ends here.
template <typename Team, typename Call>
void check(const std::string& way, Team& team, Call call, const std::vector<Tensor>& tensors) {
  fill(tensors, team.rank());
  team.barrier();
  call();
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (!is_sum(tensors, tensor, team.ranks())) {
      std::fprintf(stderr, "%s: rank %d has a wrong sum of %zu elements in tensor %zu\n", way.c_str(), team.rank(),
                   tensors[tensor].size(), tensor);
      std::exit(1);
    }
  }
  team.barrier();
}

// Checks, times and checks again; rank 0 prints. The timed calls add zeros, which no number of calls makes overflow.
template <typename Team, typename Call>
void measure(const std::string& way, const std::string& workload, const Scheme& scheme, Team& team, Call call,
             const std::vector<Tensor>& tensors) {
  check(way, team, call, tensors);
  Subject subject{workload, 0};
  for (const Tensor tensor : tensors) {
    std::fill(tensor.begin(), tensor.end(), 0.0F);
    subject.bytes += tensor.size_bytes();
  }
  const double all_s = workload.empty() ? scheme.size_s : scheme.workload_s;
  const std::vector<double> call_us = time_calls(scheme, all_s, team, call);
  check(way, team, call, tensors);
  if (team.rank() == 0) {
    print_row(way, subject, team.ranks(), call_us);
  }
}

}  // namespace timing
