// SPDX-License-Identifier: Apache-2.0
// How a compiled program times an allreduce, so that between programs nothing but the allreduce differs. Its twin for
// programs in Python is ringtune.bench.timing; `ringtune bench` gives both the same numbers.
//
// A *call* is one allreduce, in place. A *group* is as many calls back to back as take about `group_s`: the clock is
// read around groups, so that it is not what is measured. What a group took, divided by its calls, is one value.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace timing {

struct Scheme {
  double group_s;
  long max_calls;  // of a group
  double size_s;   // about how long all groups of a size take
  std::vector<size_t> sizes_bytes;
};

inline constexpr long kMinGroups = 5;
inline constexpr long kMaxGroups = 200;

// From the arguments GROUP_MS MAX_CALLS SIZE_MS BYTES..., which begin at `first`.
inline Scheme parse_scheme(int argc, char** argv, int first) {
  if (argc < first + 4) {
    std::fprintf(stderr, "%s: expected ... GROUP_MS MAX_CALLS SIZE_MS BYTES...\n", argv[0]);
    std::exit(2);
  }
  Scheme scheme{std::atof(argv[first]) / 1e3, std::atol(argv[first + 1]), std::atof(argv[first + 2]) / 1e3, {}};
  for (int argument = first + 3; argument < argc; ++argument) {
    scheme.sizes_bytes.push_back(std::strtoull(argv[argument], nullptr, 10));
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

// Microseconds per call, one value per group, ascending. `team.agree(number)` returns rank 0's number on every rank.
template <typename Team, typename Call>
std::vector<double> time_calls(const Scheme& scheme, Team& team, Call call) {
  long calls = 1;
  for (int look = 0; look < 3; ++look) {  // the first ones are slower than what comes, and are the warm-up
    const double call_s = time_group(team, call, calls) / static_cast<double>(calls);
    calls = team.agree(bounded(scheme.group_s / call_s, 1, scheme.max_calls));
  }
  const double group_s = time_group(team, call, calls);
  const long groups = team.agree(bounded(scheme.size_s / group_s, kMinGroups, kMaxGroups));
  std::vector<double> call_us;
  for (long group = 0; group < groups; ++group) {
    call_us.push_back(time_group(team, call, calls) / static_cast<double>(calls) * 1e6);
  }
  std::sort(call_us.begin(), call_us.end());
  return call_us;
}

// The value below which the share lies, of ascending values.
inline double quantile(const std::vector<double>& ascending, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(ascending.size())));
  return ascending[std::max<size_t>(rank, 1) - 1];
}

inline void print_row(const std::string& way, size_t bytes, int ranks, const std::vector<double>& call_us) {
  std::printf("{\"way\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"us_median\": %.4f, \"us_p99\": %.4f}\n", way.c_str(),
              bytes, ranks, quantile(call_us, 0.5), quantile(call_us, 0.99));
  std::fflush(stdout);
}

// Small integers, whose float32 sums are exact in any order.
inline void fill(float* data, size_t elements, int rank) {
  for (size_t i = 0; i < elements; ++i) {
    data[i] = static_cast<float>(i % 251 + static_cast<size_t>(rank));
  }
}

// Whether `data` is what `fill` of all ranks adds up to.
inline bool is_sum(const float* data, size_t elements, int ranks) {
  for (size_t i = 0; i < elements; ++i) {
    const size_t of_ranks = static_cast<size_t>(ranks) * static_cast<size_t>(ranks - 1) / 2;
    if (data[i] != static_cast<float>(i % 251 * static_cast<size_t>(ranks) + of_ranks)) {
      return false;
    }
  }
  return true;
}

// Runs a call on numbers whose sum is known; a program that computes anything else ends here.
template <typename Team, typename Call>
void check(const std::string& way, Team& team, Call call, float* data, size_t elements) {
  fill(data, elements, team.rank());
  team.barrier();
  call();
  if (!is_sum(data, elements, team.ranks())) {
    std::fprintf(stderr, "%s: rank %d has a wrong sum of %zu elements\n", way.c_str(), team.rank(), elements);
    std::exit(1);
  }
  team.barrier();
}

// Checks, times and checks again; rank 0 prints. The timed calls add zeros, which no number of calls makes overflow.
template <typename Team, typename Call>
void measure(const std::string& way, const Scheme& scheme, Team& team, Call call, float* data, size_t bytes) {
  const size_t elements = bytes / sizeof(float);
  check(way, team, call, data, elements);
  std::fill(data, data + elements, 0.0F);
  const std::vector<double> call_us = time_calls(scheme, team, call);
  check(way, team, call, data, elements);
  if (team.rank() == 0) {
    print_row(way, bytes, team.ranks(), call_us);
  }
}

}  // namespace timing
