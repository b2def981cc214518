// SPDX-License-Identifier: Apache-2.0
// The data plane between any two ranks over stream sockets, one per pair of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/layout.h"
#include "transport/links.h"
#include "transport/transport.h"

namespace ringtune {

class TcpLinks final : public Links {
 public:
  // Takes the descriptors over (by world rank, -1 for this one). `pids` are for messages and may be empty.
  TcpLinks(Transport& transport, const Layout& layout, std::vector<int> pids, std::vector<int> data_fds,
           int64_t timeout_ns);
  ~TcpLinks() override;
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  // Both peers this rank itself: copies.
  Status exchange(int to, ByteSpan out, int from, MutableByteSpan in) override;

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
  };
  // How long nothing has moved.
  struct Quiet {
    int tries = 0;
    int64_t since_ns = 0;
  };

  int fd_of(int rank, size_t bytes) const { return bytes == 0 ? -1 : fds_[static_cast<size_t>(rank)]; }
  Status advance(Side& side, Quiet& quiet);
  Status pause(const Side& sending, const Side& receiving, Quiet& quiet);
  Status fail_lost(const Side& side, int error);
  Status fail_after_timeout(const Side& sending, const Side& receiving);

  Transport& transport_;
  const Layout layout_;
  const std::vector<int> pids_;
  std::vector<int> fds_;
  int64_t timeout_ns_;
};

}  // namespace ringtune
