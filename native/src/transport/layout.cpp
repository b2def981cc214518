// SPDX-License-Identifier: Apache-2.0
#include "transport/layout.h"

#include <algorithm>
#include <utility>

namespace ringtune {

Layout::Layout(int rank, std::vector<int> hosts) : rank_(rank), hosts_(std::move(hosts)) {
  const int last = *std::max_element(hosts_.begin(), hosts_.end());
  ranks_.resize(static_cast<size_t>(last) + 1);
  for (int member = 0; member < world_size(); ++member) {
    std::vector<int>& neighbours = ranks_[static_cast<size_t>(host_of(member))];
    local_ranks_.push_back(static_cast<int>(neighbours.size()));
    neighbours.push_back(member);
  }
}

int Layout::smallest_local_size() const {
  const auto smallest = std::ranges::min_element(ranks_, {}, &std::vector<int>::size);
  return static_cast<int>(smallest->size());
}

}  // namespace ringtune
