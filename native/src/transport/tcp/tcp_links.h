// SPDX-License-Identifier: Apache-2.0
// The data plane between any two ranks over stream sockets.
//
// The first connection of a pair of ranks carries whole messages, without headers. The pair may have further ones, its
// lanes, which share long messages in chunks (see `lanes.h`). The size of a message and the number of connections in
// use, which both ends know, decide its way: neither way has bytes of the other, so the number changes between two
// messages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <poll.h>

#include "base/config.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/tcp/lanes.h"
#include "transport/tcp/tls/tls_session.h"
#include "transport/transport.h"

namespace ringtune {

class TcpLinks final : public Links {
 public:
  // Takes the descriptors over: by world rank, -1 for this one, and as often again as a pair has lanes, -1 where it has
  // none. `pids` are for messages and may be empty.
  TcpLinks(Transport& transport, const Layout& layout, std::vector<int> pids, std::vector<int> data_fds,
           int64_t timeout_ns, TlsSessions tls = {});
  ~TcpLinks() override;
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  // Both peers this rank itself: copies.
  Status begin(int to, ByteSpan out, int from, MutableByteSpan in) override;
  Status finish() override;
  void give_up() override;

  void use_connections(uint64_t connections) override;
  size_t connections() const override { return 1 + lane_count_; }
  std::string describe_unconfirmed(int rank) const override;
  uint64_t sent_bytes(size_t connection) const override {
    return sent_bytes_[connection].load(std::memory_order_relaxed);
  }

  // In a forked child: closes the descriptors.
  void abandon_after_fork() override;

 private:
  // One direction of an exchange: `out` or `in` is empty.
  struct Side {
    int rank;
    int fd;  // -1 for a message that goes by lanes, and for none
    ByteSpan out;
    MutableByteSpan in;
    size_t done_bytes = 0;

    size_t wanted_bytes() const { return out.size() + in.size(); }
    bool is_done() const { return done_bytes == wanted_bytes(); }
    bool is_sending() const { return in.empty(); }
  };
  struct Exchange {
    Side sending;
    Side receiving;
  };
  // The lanes of a pair of ranks.
  struct Pair {
    int rank;
    std::vector<int> fds;
    SendingLanes sending;
    ReceivingLanes receiving;
  };
  // Clock of a time in which no byte has moved.
  struct Quiet {
    int tries = 0;
    int64_t since_ns = 0;
  };

  void add_pair(int rank);
  int fd_of(int rank, size_t bytes) const { return bytes == 0 ? -1 : fds_[static_cast<size_t>(rank)]; }
  // The lanes by which a message goes, null where it goes by the first connection.
  Pair* lanes_to(int rank, size_t bytes);
  // One turn of every side whose socket no earlier one has yet to use, which are then in `active_`.
  Status advance_all(Quiet& quiet);
  Status advance(Side& side, Quiet& quiet);
  Status advance_lanes(Quiet& quiet);
  bool is_next(const Side& side) const;
  Status pause(const Exchange& awaited, Quiet& quiet);
  // Gives up all exchanges, and passes the status on.
  Status failed(Status status);
  // `fd` is the connection that is lost, of the side's.
  Status fail_lost(const Side& side, int fd, const std::string& how);
  Status fail_lost_lane(const Pair& pair, bool is_sending, const LaneTurn& turn);
  Status fail_after_timeout(const Exchange& awaited);

  Transport& transport_;
  const Layout layout_;
  const std::vector<int> pids_;
  std::vector<int> fds_;
  const TlsSessions tls_;
  size_t lane_count_;
  int64_t timeout_ns_;
  size_t used_lanes_ = 0;  // none where one connection is in use
  std::array<std::atomic<uint64_t>, 1 + kMaxConnections> sent_bytes_{};
  std::vector<Pair> pairs_;
  std::deque<Exchange> begun_;
  std::vector<Side*> active_;
  std::vector<pollfd> polled_;
};

}  // namespace ringtune
