// SPDX-License-Identifier: Apache-2.0
// Resources of a collective: shared memory inside the host, links between any two ranks if there are several hosts.
#pragma once

#include "collectives/host_shares.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/shm/arenas.h"
#include "transport/shm/stage.h"

namespace ringtune {

struct CollectiveContext {
  const Layout& layout;
  Stage& stage;                        // stages of this host's ranks, by local rank
  Links* links;                        // null exactly where the world has one host
  const Arenas* arenas = nullptr;      // arenas of this host's ranks, by local rank; null where this process has none
  const HostShares* shares = nullptr;  // shares of a block that hosts reduce together; null: even

  int rank() const { return layout.rank(); }
  int world_size() const { return layout.world_size(); }
  bool is_one_host() const { return layout.host_count() == 1; }
  // The rank at a distance around the ring of all ranks; |distance| is at most the world's size.
  int neighbour(int distance) const { return (rank() + distance + world_size()) % world_size(); }
  // The host at a distance around the ring of all hosts; |distance| is at most their number.
  int host(int distance) const { return (layout.host() + distance + layout.host_count()) % layout.host_count(); }
  // The rank of this one's local number on a host that has so many.
  int counterpart(int host) const { return layout.ranks_of(host)[static_cast<size_t>(layout.local_rank())]; }
};

}  // namespace ringtune
