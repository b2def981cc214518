// SPDX-License-Identifier: Apache-2.0
// Shares of a block, one per host: the elements that a host reduces in a hierarchical allreduce of two rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringtune {

// Elements [first, first + elements) of a block.
struct HostShare {
  size_t first;
  size_t elements;
};

// A host with the share s of N bytes sends N (1 - s) contributions and N s (p - 1) results, and receives as many:
// N (1 + s (p - 2)) between p hosts. Shares therefore change a host's traffic only where there are three or more.
class HostShares {
 public:
  // Even shares.
  explicit HostShares(int hosts) : HostShares(std::vector<uint64_t>(static_cast<size_t>(hosts), 1)) {}
  // Shares for which every host's traffic takes its link equally long; a host that is too slow for that gets none.
  // `rates` are positive, one per host, in any unit. A host with 85 % of the fastest rate counts as equally fast. All
  // arithmetic is on integers: ranks with the same rates have the same shares.
  static HostShares balanced(std::span<const uint64_t> rates);

  bool is_even() const { return is_even_; }
  HostShare of(size_t elements, int host) const {
    const size_t first = bound(elements, static_cast<size_t>(host));
    return {first, bound(elements, static_cast<size_t>(host) + 1) - first};
  }
  // Elements that the host's share never exceeds, in blocks of up to `max_elements`.
  size_t room(size_t max_elements, int host) const { return of(max_elements, host).elements + 2 * kAlignment; }

 private:
  static constexpr size_t kAlignment = 16;  // elements: a share begins at a cache line of partial results

  explicit HostShares(const std::vector<uint64_t>& weights);

  // End of the shares of the first hosts.
  size_t bound(size_t elements, size_t hosts) const;

  std::vector<uint64_t> weights_before_;  // sums of the hosts before each, then of all
  bool is_even_;
};

}  // namespace ringtune
