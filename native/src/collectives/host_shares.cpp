// SPDX-License-Identifier: Apache-2.0
#include "collectives/host_shares.h"

#include <algorithm>
#include <numeric>

namespace ringtune {
namespace {

// Rates are compared in thousandths of the fastest.
constexpr uint64_t kFastest = 1000;
// Rate from which a host counts as equally fast: repeated measurements of even links differ by up to a tenth, and
// shares gain little for less.
constexpr uint64_t kEvenPermille = 850;

// ISO C++ has no such type, and a compiler in pedantic mode warns of it.
__extension__ using Product = unsigned __int128;

uint64_t scaled(uint64_t amount, uint64_t numerator, uint64_t denominator) {
  return static_cast<uint64_t>(static_cast<Product>(amount) * numerator / denominator);
}

std::vector<uint64_t> in_permille(std::span<const uint64_t> rates) {
  const uint64_t fastest = std::ranges::max(rates);
  std::vector<uint64_t> relative;
  for (const uint64_t rate : rates) {
    const uint64_t permille = scaled(rate, kFastest, fastest);
    relative.push_back(permille >= kEvenPermille ? kFastest : std::max<uint64_t>(1, permille));
  }
  return relative;
}

}  // namespace

// Shares s = (t r - 1) / (p - 2), with the rates r of the hosts A that get one and t = (p - 2 + |A|) / sum(r): the
// traffic N (1 + s (p - 2)) of each takes N t. A host with t r < 1 gets none, which lets t grow for the others. Weights
// are these shares times sum(r) (p - 2), which makes them whole numbers.
HostShares HostShares::balanced(std::span<const uint64_t> rates) {
  const auto hosts = static_cast<uint64_t>(rates.size());
  if (hosts < 3) {
    return HostShares(static_cast<int>(hosts));
  }
  const std::vector<uint64_t> relative = in_permille(rates);
  std::vector<uint64_t> ascending = relative;
  std::ranges::sort(ascending);
  uint64_t total = std::accumulate(ascending.begin(), ascending.end(), uint64_t{0});
  uint64_t active = hosts;
  for (const uint64_t slowest : ascending) {
    if ((hosts - 2 + active) * slowest >= total) break;
    total -= slowest;
    --active;
  }
  std::vector<uint64_t> weights;
  for (const uint64_t rate : relative) {
    const uint64_t share = (hosts - 2 + active) * rate;
    weights.push_back(share > total ? share - total : 0);
  }
  return HostShares(weights);
}

HostShares::HostShares(const std::vector<uint64_t>& weights)
    : weights_before_(weights.size() + 1),
      is_even_(std::ranges::adjacent_find(weights, std::not_equal_to()) == weights.end()) {
  std::partial_sum(weights.begin(), weights.end(), weights_before_.begin() + 1);
}

size_t HostShares::bound(size_t elements, size_t hosts) const {
  if (hosts + 1 == weights_before_.size()) {
    return elements;
  }
  return scaled(elements, weights_before_[hosts], weights_before_.back()) / kAlignment * kAlignment;
}

}  // namespace ringtune
