// SPDX-License-Identifier: Apache-2.0
// The computation of the limit: copies and sums of float32.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace limit {

// The widest registers there are, exactly: GCC 12 takes wider vectors apart so badly that sums took twice as long.
inline constexpr size_t kVectorBytes = __BIGGEST_ALIGNMENT__;
inline constexpr size_t kVectorElements = kVectorBytes / sizeof(float);
using Vector = float __attribute__((vector_size(kVectorBytes)));

// outputs[...][i] = sources[0][i] + ... + sources[S - 1][i]. An output may be one of the sources.
template <size_t S, size_t O>
inline void sum(const float* const* source, float* const* output, size_t elements) {
  std::array<const float*, S> sources;
  std::array<float*, O> outputs;
  std::copy_n(source, S, sources.begin());
  std::copy_n(output, O, outputs.begin());
  size_t i = 0;
  for (; i + kVectorElements <= elements; i += kVectorElements) {
    Vector total;
    std::memcpy(&total, sources[0] + i, kVectorBytes);
    for (size_t s = 1; s < S; ++s) {
      Vector next;
      std::memcpy(&next, sources[s] + i, kVectorBytes);
      total += next;
    }
    for (size_t o = 0; o < O; ++o) {
      std::memcpy(outputs[o] + i, &total, kVectorBytes);
    }
  }
  for (; i < elements; ++i) {
    float total = sources[0][i];
    for (size_t s = 1; s < S; ++s) {
      total += sources[s][i];
    }
    for (size_t o = 0; o < O; ++o) {
      outputs[o][i] = total;
    }
  }
}

inline void copy(const float* source, size_t elements, float* target) {
  std::memcpy(target, source, elements * sizeof(float));
}

// Any number of sources and outputs, through partial sums that stay in the first-level cache.
inline void sum_by_tiles(const std::vector<const float*>& sources, const std::vector<float*>& outputs,
                         size_t elements) {
  constexpr size_t kTile = 1024;
  std::array<float, kTile> partial;
  float* const target = partial.data();
  for (size_t begin = 0; begin < elements; begin += kTile) {
    const size_t count = std::min(kTile, elements - begin);
    copy(sources[0] + begin, count, target);
    for (size_t s = 1; s < sources.size(); ++s) {
      const std::array<const float*, 2> pair{target, sources[s] + begin};
      sum<2, 1>(pair.data(), &target, count);
    }
    for (float* const output : outputs) {
      copy(target, count, output + begin);
    }
  }
}

// Sums in the order of the sources.
inline void sum(const std::vector<const float*>& sources, const std::vector<float*>& outputs, size_t elements) {
  switch (10 * sources.size() + outputs.size()) {
    case 21:
      return sum<2, 1>(sources.data(), outputs.data(), elements);
    case 22:
      return sum<2, 2>(sources.data(), outputs.data(), elements);
    case 41:
      return sum<4, 1>(sources.data(), outputs.data(), elements);
    case 44:
      return sum<4, 4>(sources.data(), outputs.data(), elements);
    default:
      return sum_by_tiles(sources, outputs, elements);
  }
}

struct Range {
  size_t begin;
  size_t elements;
};

// A rank's share, in whole cache lines but for the end.
inline Range block_of(size_t elements, int ranks, int rank) {
  constexpr size_t kLineElements = 64 / sizeof(float);
  const size_t lines = (elements + kLineElements - 1) / kLineElements;
  const auto edge = [&](int number) {
    return std::min(lines * static_cast<size_t>(number) / static_cast<size_t>(ranks) * kLineElements, elements);
  };
  return {edge(rank), edge(rank + 1) - edge(rank)};
}

}  // namespace limit
