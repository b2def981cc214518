// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/config.h"

namespace ringtune {
namespace {

// One phase less against more to reduce: no difference is measured up to 64 KiB, a loss above, sooner with more ranks;
// see benchmarks/README.md.
constexpr size_t kDirectMaxBytes = 8 * kKiB;

constexpr std::array<AllreduceAlgorithm, 2> kAlgorithms{{
    {"direct", "every rank reduces everything: one synchronization", kDirectMaxBytes, &direct_allreduce},
    {"reduce_scatter_allgather", "every rank reduces its block of each chunk, pipelined through cache-sized stages",
     std::numeric_limits<size_t>::max(), &reduce_scatter_allgather},
}};

// Two stages of this size per rank stay in the second-level cache.
constexpr size_t kAutoChunkBytes = 128 * kKiB;

}  // namespace

std::span<const AllreduceAlgorithm> allreduce_algorithms() { return kAlgorithms; }

int find_allreduce_algorithm(std::string_view name) {
  const auto row = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                [&](const auto& candidate) { return candidate.name == name; });
  return row == kAlgorithms.end() ? -1 : static_cast<int>(row - kAlgorithms.begin());
}

int auto_allreduce_algorithm(size_t bytes) {
  const auto row = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                [bytes](const auto& candidate) { return bytes <= candidate.auto_max_bytes; });
  return static_cast<int>(row - kAlgorithms.begin());
}

size_t auto_chunk_bytes(size_t /*bytes*/) { return kAutoChunkBytes; }

uint64_t chunk_count(size_t bytes, size_t chunk_bytes) {
  return std::max<uint64_t>(1, (bytes + chunk_bytes - 1) / chunk_bytes);
}

}  // namespace ringtune
