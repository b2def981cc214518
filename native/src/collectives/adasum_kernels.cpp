// SPDX-License-Identifier: Apache-2.0
#include "collectives/adasum_kernels.h"

#include "collectives/element.h"

namespace ringtune {
namespace {

// Sums of several lanes, which the vectorizer may keep apart: it must not change the order of additions by itself.
constexpr size_t kLanes = 8;

struct Products {
  double ab = 0;
  double aa = 0;
  double bb = 0;
};

template <typename T>
Products products(const std::byte* a, const std::byte* b, size_t elements) {
  double ab[kLanes]{};
  double aa[kLanes]{};
  double bb[kLanes]{};
  const auto add = [&](size_t lane, size_t i) {
    const auto x = static_cast<double>(read_element<T>(a, i));
    const auto y = static_cast<double>(read_element<T>(b, i));
    ab[lane] += x * y;
    aa[lane] += x * x;
    bb[lane] += y * y;
  };
  size_t i = 0;
  for (; i + kLanes <= elements; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      add(lane, i + lane);
    }
  }
  for (; i < elements; ++i) {
    add(0, i);
  }
  Products sums;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sums.ab += ab[lane];
    sums.aa += aa[lane];
    sums.bb += bb[lane];
  }
  return sums;
}

double weight(double dot, double norm_squared) { return norm_squared == 0 ? 1 : 1 - dot / (2 * norm_squared); }

// The order is kept: a compiler may fuse one of the products with the addition, and so round the two differently.
template <typename T, bool kIsOwnFirst>
void add_weighted(T own_weight, std::byte* __restrict own, T peer_weight, const std::byte* __restrict peer,
                  size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    const T own_term = read_element<T>(own, i);
    const T peer_term = read_element<T>(peer, i);
    write_element<T>(own, i,
                     kIsOwnFirst ? own_weight * own_term + peer_weight * peer_term
                                 : peer_weight * peer_term + own_weight * own_term);
  }
}

template <typename T>
void combine(std::byte* own, const std::byte* peer, bool is_own_first, size_t elements) {
  const Products sums = products<T>(own, peer, elements);
  const T own_weight = static_cast<T>(weight(sums.ab, sums.aa));
  const T peer_weight = static_cast<T>(weight(sums.ab, sums.bb));
  const auto add = is_own_first ? &add_weighted<T, true> : &add_weighted<T, false>;
  add(own_weight, own, peer_weight, peer, elements);
}

}  // namespace

void adasum_combine(DataType dtype, std::byte* own, const std::byte* peer, bool is_own_first, size_t elements) {
  const auto combine_as = dtype == DataType::kFloat64 ? &combine<double> : &combine<float>;
  combine_as(own, peer, is_own_first, elements);
}

}  // namespace ringtune
