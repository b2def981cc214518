// SPDX-License-Identifier: Apache-2.0
// The data plane between any two ranks over stream sockets, one per pair of ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <poll.h>

#include "transport/layout.h"
#include "transport/links.h"
#include "transport/tcp/tls/tls_session.h"
#include "transport/transport.h"

namespace ringtune {

class TcpLinks final : public Links {
 public:
  // Takes the descriptors over (by world rank, -1 for this one). `pids` are for messages and may be empty.
  TcpLinks(Transport& transport, const Layout& layout, std::vector<int> pids, std::vector<int> data_fds,
           int64_t timeout_ns, TlsSessions tls = {});
  ~TcpLinks() override;
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  // Both peers this rank itself: copies.
  Status begin(int to, ByteSpan out, int from, MutableByteSpan in) override;
  Status finish() override;
  void give_up() override { begun_.clear(); }

  // In a forked child: closes the descriptors.
  void abandon_after_fork() override;

 private:
  // One direction of an exchange: `out` or `in` is empty.
  struct Side {
    int rank;
    int fd;
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
  // Clock of a time in which nothing has moved.
  struct Quiet {
    int tries = 0;
    int64_t since_ns = 0;
  };

  int fd_of(int rank, size_t bytes) const { return bytes == 0 ? -1 : fds_[static_cast<size_t>(rank)]; }
  // One turn of every side whose socket no earlier one has yet to use, which are then in `active_`.
  Status advance_all(Quiet& quiet);
  Status advance(Side& side, Quiet& quiet);
  bool is_next(const Side& side) const;
  Status pause(const Exchange& awaited, Quiet& quiet);
  // Gives up what has begun, and passes the status on.
  Status failed(Status status);
  Status fail_lost(const Side& side, int error);
  Status fail_after_timeout(const Exchange& awaited);

  Transport& transport_;
  const Layout layout_;
  const std::vector<int> pids_;
  std::vector<int> fds_;
  const TlsSessions tls_;
  int64_t timeout_ns_;
  std::deque<Exchange> begun_;
  std::vector<Side*> active_;
  std::vector<pollfd> polled_;
};

}  // namespace ringtune
