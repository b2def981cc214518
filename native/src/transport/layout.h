// SPDX-License-Identifier: Apache-2.0
// Layout of ranks on hosts, as one rank sees it.
#pragma once

#include <cstddef>
#include <vector>

namespace ringtune {

class Layout {
 public:
  // `hosts[rank]` numbers the hosts from 0 in the order of their first rank.
  Layout(int rank, std::vector<int> hosts);
  static Layout one_host(int rank, int world_size) { return {rank, std::vector<int>(static_cast<size_t>(world_size))}; }

  int rank() const { return rank_; }
  int world_size() const { return static_cast<int>(hosts_.size()); }
  int host_count() const { return static_cast<int>(ranks_.size()); }
  int host() const { return host_of(rank_); }
  int host_of(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  bool is_local(int rank) const { return host_of(rank) == host(); }

  // The ranks of a host, ascending: a rank's place in it is its local rank.
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<size_t>(host)]; }
  const std::vector<int>& local_ranks() const { return ranks_of(host()); }
  // Number of ranks of the host that has the fewest.
  int smallest_local_size() const;
  // True if every host has the same number of ranks, and more than one.
  bool has_equal_hosts() const {
    return smallest_local_size() > 1 && smallest_local_size() * host_count() == world_size();
  }
  int local_size() const { return static_cast<int>(local_ranks().size()); }
  // Speaks with rank 0 for its host: local rank 0.
  int leader_of(int host) const { return ranks_of(host).front(); }
  int leader() const { return leader_of(host()); }
  bool is_leader() const { return rank_ == leader(); }
  int local_rank() const { return local_rank_of(rank_); }
  // Number of a rank on its own host.
  int local_rank_of(int rank) const { return local_ranks_[static_cast<size_t>(rank)]; }

 private:
  int rank_;
  std::vector<int> hosts_;
  std::vector<std::vector<int>> ranks_;
  std::vector<int> local_ranks_;
};

}  // namespace ringtune
