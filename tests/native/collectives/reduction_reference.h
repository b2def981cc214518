// SPDX-License-Identifier: Apache-2.0
// Reductions as their definition says, one element at a time, on values for which no order of operations rounds:
// whatever an algorithm's order, it must give these bits.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "collectives/element.h"
#include "collectives/reduce_kernels.h"

namespace ringtune::testing {

inline constexpr ReduceOp kReductions[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                                           ReduceOp::kProduct};

// Every dtype with every operation that it supports, plain and scaled.
inline std::vector<Reduction> all_reductions(int ranks) {
  std::vector<Reduction> all;
  for (int dtype = 0; dtype < kDataTypeCount; ++dtype) {
    for (const ReduceOp op : kReductions) {
      if (is_supported(op, static_cast<DataType>(dtype))) {
        all.push_back({static_cast<DataType>(dtype), op, 1, 1, ranks});
        all.push_back({static_cast<DataType>(dtype), op, 0.5, 4, ranks});
      }
    }
  }
  return all;
}

// Returns whether tests take many chunks of it: each dtype's sum, and each operation on float32. Chunks go their ways
// whatever the pair of dtype and operation.
inline bool goes_in_many_chunks(const Reduction& reduction) {
  return reduction.op == ReduceOp::kSum || reduction.dtype == DataType::kFloat32;
}

inline std::string describe(const Reduction& reduction) {
  return std::string(reduce_op_name(reduction.op)) + " " + std::string(dtype_name(reduction.dtype)) + " scales " +
         std::to_string(reduction.prescale) + " " + std::to_string(reduction.postscale);
}

template <typename E>
inline constexpr bool kIsFloat = std::is_floating_point_v<typename E::Accumulator>;
template <typename E>
inline constexpr bool kIsBool = std::is_same_v<E, Element<Bool>>;

// Small whole numbers or powers of two for floats and where scales act, any bits for other integers.
template <typename E>
typename E::Accumulator contribution_value(const Reduction& reduction, int rank, size_t index) {
  const uint64_t random = mix64(index * 131 + static_cast<uint64_t>(rank) + 1);
  using T = typename E::Accumulator;
  if constexpr (kIsBool<E>) {
    return static_cast<T>(random % 8 != 0);
  } else if (reduction.op == ReduceOp::kProduct && kIsFloat<E>) {
    return static_cast<T>(std::ldexp(random % 2 == 0 ? 1 : -1, static_cast<int>(random / 2 % 3)));
  } else if (kIsFloat<E> || reduction.prescale != 1) {
    const int value = static_cast<int>(random % 17) - (std::is_unsigned_v<T> ? 0 : 8);
    return static_cast<T>(value);
  } else {
    return static_cast<T>(random);
  }
}

// Integers are scaled in double and cut off.
template <typename E>
typename E::Accumulator scale(typename E::Accumulator value, double factor) {
  using T = typename E::Accumulator;
  if constexpr (kIsFloat<E>) {
    return static_cast<T>(static_cast<double>(value) * factor);
  } else {
    const double scaled = std::trunc(static_cast<double>(value) * factor);
    if (factor == 1) {
      return value;
    }
    if (kIsBool<E>) {
      return static_cast<T>(value != 0 && factor != 0);
    }
    if (scaled >= std::ldexp(1, std::numeric_limits<T>::digits)) {
      return std::numeric_limits<T>::max();
    }
    const auto lowest = std::numeric_limits<T>::lowest();
    return scaled <= static_cast<double>(lowest) ? lowest : static_cast<T>(scaled);
  }
}

// Sum of bool is or, which is the larger one, and Product is and.
template <typename E>
ReduceOp meant_op(ReduceOp op) {
  if (op == ReduceOp::kProduct) {
    return kIsBool<E> ? ReduceOp::kMin : op;
  }
  if (op == ReduceOp::kSum || op == ReduceOp::kAverage) {
    return kIsBool<E> ? ReduceOp::kMax : ReduceOp::kSum;
  }
  return op;
}

template <typename E>
typename E::Accumulator combine(ReduceOp op, typename E::Accumulator a, typename E::Accumulator b) {
  using T = typename E::Accumulator;
  using Wide = std::conditional_t<kIsFloat<E>, T, uint64_t>;
  switch (meant_op<E>(op)) {
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kProduct:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    default:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <typename E>
typename E::Accumulator average(typename E::Accumulator sum, int ranks) {
  using T = typename E::Accumulator;
  if constexpr (kIsFloat<E>) {
    return static_cast<T>(static_cast<double>(sum) / ranks);
  } else {
    return static_cast<T>(static_cast<__int128>(sum) / ranks);  // towards zero
  }
}

template <typename E>
Bytes make_contribution(const Reduction& reduction, int rank, size_t elements) {
  Bytes bytes(elements * sizeof(typename E::Stored));
  for (size_t i = 0; i < elements; ++i) {
    write_element(bytes.data(), i, E::store(contribution_value<E>(reduction, rank, i)));
  }
  return bytes;
}

inline Bytes contribution_of(const Reduction& reduction, int rank, size_t elements) {
  return with_element(reduction.dtype,
                      [&](auto element) { return make_contribution<decltype(element)>(reduction, rank, elements); });
}

template <typename E>
Bytes reduce_by_definition(const Reduction& reduction, size_t elements) {
  Bytes bytes(elements * sizeof(typename E::Stored));
  for (size_t i = 0; i < elements; ++i) {
    auto value = scale<E>(contribution_value<E>(reduction, 0, i), reduction.prescale);
    for (int rank = 1; rank < reduction.ranks; ++rank) {
      value = combine<E>(reduction.op, value, scale<E>(contribution_value<E>(reduction, rank, i), reduction.prescale));
    }
    if (reduction.op == ReduceOp::kAverage) {
      value = average<E>(value, reduction.ranks);
    }
    write_element(bytes.data(), i, E::store(scale<E>(value, reduction.postscale)));
  }
  return bytes;
}

inline Bytes expected_result(const Reduction& reduction, size_t elements) {
  return with_element(reduction.dtype,
                      [&](auto element) { return reduce_by_definition<decltype(element)>(reduction, elements); });
}

}  // namespace ringtune::testing
