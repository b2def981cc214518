// SPDX-License-Identifier: Apache-2.0
// The loops of the reductions, one template each, for every element type, operation and instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/element.h"
#include "collectives/reduce_kernels.h"

// Into the copies for each instruction set; see base/instruction_set.h.
#define RINGTUNE_INLINE [[gnu::always_inline]] inline

// Arrays are the same or apart, so iterations never meet.
#if defined(__clang__)
#define RINGTUNE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RINGTUNE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace ringtune {

// Unsigned and not narrower than int, so that an overflowing integer wraps as it does in numpy and torch instead of
// being undefined: two uint16 would be multiplied as int.
template <typename T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

struct Add {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct Multiply {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
};

// `b != b` is true for NaN alone.
struct Minimum {
  template <typename T>
  static T combine(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

struct Maximum {
  template <typename T>
  static T combine(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

template <typename T>
T scale_integer(T value, double scale) {
  constexpr double kEnd = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
  constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
  const double scaled = static_cast<double>(value) * scale;
  if (scaled >= kEnd) {
    return std::numeric_limits<T>::max();
  }
  return scaled <= kLowest ? std::numeric_limits<T>::lowest() : static_cast<T>(scaled);
}

template <typename E>
typename E::Accumulator scaled(typename E::Accumulator value, double scale) {
  using T = typename E::Accumulator;
  if constexpr (std::is_same_v<E, Element<Bool>>) {
    return static_cast<T>(value * scale != 0);
  } else if constexpr (std::is_integral_v<T>) {
    return scale_integer(value, scale);
  } else {
    return value * static_cast<T>(scale);
  }
}

template <typename T>
T average(T sum, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(sum / static_cast<std::common_type_t<T, int>>(ranks));  // towards zero, as in Horovod
  } else {
    return sum / static_cast<T>(ranks);
  }
}

// One element's contribution, scaled.
template <typename E, bool kIsScaled>
typename E::Accumulator contribution(const std::byte* source, size_t index, double scale) {
  const typename E::Accumulator value = E::load(read_element<typename E::Stored>(source, index));
  if constexpr (kIsScaled) {
    return scaled<E>(value, scale);
  } else {
    return value;
  }
}

// The loops over a tile, for one element type and operation. `tile` points to accumulators.

template <typename E, bool kIsScaled>
RINGTUNE_INLINE void load_loop(void* tile, const std::byte* source, size_t count, double scale) {
  auto* __restrict accumulators = static_cast<typename E::Accumulator*>(tile);
  for (size_t i = 0; i < count; ++i) {
    accumulators[i] = contribution<E, kIsScaled>(source, i, scale);
  }
}

template <typename E, typename Op, bool kIsScaled>
RINGTUNE_INLINE void combine_loop(void* tile, const std::byte* source, size_t count, double scale) {
  auto* __restrict accumulators = static_cast<typename E::Accumulator*>(tile);
  for (size_t i = 0; i < count; ++i) {
    accumulators[i] = Op::combine(accumulators[i], contribution<E, kIsScaled>(source, i, scale));
  }
}

template <typename E>
RINGTUNE_INLINE void finish_loop(void* tile, size_t count, const Reduction* reduction) {
  auto* __restrict accumulators = static_cast<typename E::Accumulator*>(tile);
  if (reduction->op == ReduceOp::kAverage) {
    for (size_t i = 0; i < count; ++i) {
      accumulators[i] = average(accumulators[i], reduction->ranks);
    }
  }
  if (reduction->postscale != 1) {
    for (size_t i = 0; i < count; ++i) {
      accumulators[i] = scaled<E>(accumulators[i], reduction->postscale);
    }
  }
}

template <typename E>
RINGTUNE_INLINE void store_loop(const void* tile, std::byte* __restrict target, size_t count) {
  const auto* accumulators = static_cast<const typename E::Accumulator*>(tile);
  for (size_t i = 0; i < count; ++i) {
    write_element(target, i, E::store(accumulators[i]));
  }
}

// Last operation on the sum of all contributions.
enum class FusedEnd : uint8_t { kNothing, kMultiply, kDivide };

// Reduces few contributions to a result in one pass, without intermediate results. A target may be one of the sources.
template <typename E, typename Op, FusedEnd kEnd, size_t kSources, size_t kTargets>
RINGTUNE_INLINE void fused_loop(const std::byte* const* contributions, const ReductionTargets* targets, size_t count,
                                double by) {
  using Stored = typename E::Stored;
  using T = typename E::Accumulator;
  const std::byte* sources[kSources];
  for (size_t source = 0; source < kSources; ++source) {
    sources[source] = contributions[source];
  }
  std::byte* const first = targets->first;
  std::byte* const second = targets->second;
  RINGTUNE_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    T value = E::load(read_element<Stored>(sources[0], i));
    for (size_t source = 1; source < kSources; ++source) {
      value = Op::combine(value, E::load(read_element<Stored>(sources[source], i)));
    }
    if constexpr (kEnd == FusedEnd::kMultiply) {
      value *= static_cast<T>(by);
    } else if constexpr (kEnd == FusedEnd::kDivide) {
      value /= static_cast<T>(by);
    }
    write_element(first, i, E::store(value));
    if constexpr (kTargets == 2) {
      write_element(second, i, E::store(value));
    }
  }
}

}  // namespace ringtune
