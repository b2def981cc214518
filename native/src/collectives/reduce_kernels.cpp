// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/element.h"

namespace ringtune {
namespace {

// The accumulators of one tile stay in the first-level cache while the inputs stream by.
constexpr size_t kTileBytes = 4096;

// Unsigned, so that an overflowing integer wraps as it does in numpy and torch instead of being undefined.
struct Add {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

struct Multiply {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
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
    const auto quotient = sum / ranks;  // as int where T is smaller
    return static_cast<T>(quotient - (sum % ranks < 0 ? 1 : 0));
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
using TakeLoop = void (*)(void* tile, const std::byte* source, size_t count, double scale);

template <typename E, bool kIsScaled>
void load_loop(void* tile, const std::byte* source, size_t count, double scale) {
  auto* __restrict accumulators = static_cast<typename E::Accumulator*>(tile);
  for (size_t i = 0; i < count; ++i) {
    accumulators[i] = contribution<E, kIsScaled>(source, i, scale);
  }
}

template <typename E, typename Op, bool kIsScaled>
void combine_loop(void* tile, const std::byte* source, size_t count, double scale) {
  auto* __restrict accumulators = static_cast<typename E::Accumulator*>(tile);
  for (size_t i = 0; i < count; ++i) {
    accumulators[i] = Op::combine(accumulators[i], contribution<E, kIsScaled>(source, i, scale));
  }
}

template <typename E>
void finish_loop(void* tile, size_t count, const Reduction& reduction) {
  auto* __restrict accumulators = static_cast<typename E::Accumulator*>(tile);
  if (reduction.op == ReduceOp::kAverage) {
    for (size_t i = 0; i < count; ++i) {
      accumulators[i] = average(accumulators[i], reduction.ranks);
    }
  }
  if (reduction.postscale != 1) {
    for (size_t i = 0; i < count; ++i) {
      accumulators[i] = scaled<E>(accumulators[i], reduction.postscale);
    }
  }
}

template <typename E>
void store_loop(const void* tile, std::byte* __restrict target, size_t count) {
  const auto* accumulators = static_cast<const typename E::Accumulator*>(tile);
  for (size_t i = 0; i < count; ++i) {
    write_element(target, i, E::store(accumulators[i]));
  }
}

struct Loops {
  size_t stored_bytes;
  size_t accumulator_bytes;
  TakeLoop load;
  TakeLoop combine;
  TakeLoop load_partial;
  TakeLoop combine_partial;
  void (*finish)(void* tile, size_t count, const Reduction& reduction);
  void (*store)(const void* tile, std::byte* target, size_t count);
};

template <typename E, typename Op>
Loops loops(bool is_scaled) {
  using Partial = Element<typename E::Accumulator>;
  return {sizeof(typename E::Stored),
          sizeof(typename E::Accumulator),
          is_scaled ? &load_loop<E, true> : &load_loop<E, false>,
          is_scaled ? &combine_loop<E, Op, true> : &combine_loop<E, Op, false>,
          &load_loop<Partial, false>,
          &combine_loop<Partial, Op, false>,
          &finish_loop<E>,
          &store_loop<E>};
}

template <typename E>
Loops loops_of(ReduceOp op, bool is_scaled) {
  constexpr bool kIsBool = std::is_same_v<E, Element<Bool>>;
  switch (op) {
    case ReduceOp::kMin:
      return loops<E, Minimum>(is_scaled);
    case ReduceOp::kMax:
      return loops<E, Maximum>(is_scaled);
    case ReduceOp::kProduct:
      return loops<E, std::conditional_t<kIsBool, Minimum, Multiply>>(is_scaled);
    default:
      return loops<E, std::conditional_t<kIsBool, Maximum, Add>>(is_scaled);
  }
}

}  // namespace

void reduce(const Reduction& reduction, const ReductionInputs& inputs, ReductionOutput output, std::byte* target,
            size_t elements) {
  const Loops kernel = with_element(reduction.dtype, [&](auto element) {
    return loops_of<decltype(element)>(reduction.op, reduction.prescale != 1);
  });
  alignas(64) std::byte tile[kTileBytes];
  const size_t tile_elements = kTileBytes / kernel.accumulator_bytes;
  for (size_t start = 0; start < elements; start += tile_elements) {
    const size_t count = std::min(tile_elements, elements - start);
    bool is_first = true;
    for (const std::byte* partial : inputs.partials) {
      (is_first ? kernel.load_partial : kernel.combine_partial)(tile, partial + start * kernel.accumulator_bytes, count,
                                                                1);
      is_first = false;
    }
    for (const std::byte* source : inputs.contributions) {
      (is_first ? kernel.load : kernel.combine)(tile, source + start * kernel.stored_bytes, count, reduction.prescale);
      is_first = false;
    }
    if (output == ReductionOutput::kResult) {
      kernel.finish(tile, count, reduction);
      kernel.store(tile, target + start * kernel.stored_bytes, count);
    } else {
      std::memcpy(target + start * kernel.accumulator_bytes, tile, count * kernel.accumulator_bytes);
    }
  }
}

}  // namespace ringtune
