// SPDX-License-Identifier: Apache-2.0
// The part in the negotiation of a host's leader, where rank 0 is on another host: it passes requests on to rank 0, and
// responses back. Ids that every rank of the host has requested travel once, whatever the number of ranks.
//
// A tensor waits for all ranks anyway, so that it costs no time to hold an id back until the host is complete. But not
// for long: rank 0 must be able to say whom a tensor waits for. Tensors requested in full, which are new, and all
// requests while a rank of the host has joined are passed on as they come.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/leader.h"
#include "transport/layout.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace ringtune {

// Longest wait of an id for the rest of the host.
inline constexpr int64_t kHostWaitNs = 50'000'000;

class HostLeader final : public Leader {
 public:
  HostLeader(Transport& transport, const Layout& layout);

  bool progress(int64_t now_ns) override;
  bool is_congested() const override { return !unsent_.empty() || !unpublished_.empty(); }
  // When ids that wait are passed on as they are; no value if none waits.
  std::optional<int64_t> due_ns() const override;

 private:
  // An id that some ranks of the host have requested, and others not.
  struct Partial {
    std::bitset<kMaxRanksPerHost> requested;  // one bit per local rank
    bool is_passed_on = false;                // rank 0 knows of those
    int64_t since_ns = 0;
  };
  struct Waiting {
    CacheId id;
    int64_t since_ns;
  };

  bool receive_requests(int64_t now_ns);
  void handle(int local_rank, Request request, int64_t now_ns);
  // False if the rank's request for this id is to be passed on alone.
  bool hold(int local_rank, CacheId id, int64_t now_ns);
  bool is_waiting(const Waiting& waiting) const;

  void pass_on_complete();
  void pass_on_waiting();
  void pass_on(int32_t rank, Request request);
  int rank_of(int local_rank) const { return layout_.local_ranks()[static_cast<size_t>(local_rank)]; }
  bool send_requests();
  bool relay_responses();
  bool receive_response();
  void note(const Response& response);

  Transport& transport_;
  const Layout& layout_;
  std::deque<Bytes> unsent_;  // to rank 0
  Bytes unpublished_;         // to the ranks of this host; empty: none

  // Config of the ranks whose ids are held here.
  uint64_t config_epoch_ = 0;
  uint64_t config_hash_ = 0;
  std::vector<Partial> partial_;   // index: id - 1
  std::deque<Waiting> waiting_;    // oldest first; some may wait no more
  std::vector<CacheId> complete_;  // every rank of the host has requested them

  bool has_joined_ranks_ = false;
};

}  // namespace ringtune
