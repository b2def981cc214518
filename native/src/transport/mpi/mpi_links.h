// SPDX-License-Identifier: Apache-2.0
// The data plane between any two ranks over an MPI that the job runs under.
//
// MPI moves bytes only while somebody calls it, has nothing to sleep on, and cannot take a transfer back for certain.
// So a waiter polls: it spins, yields, then sleeps for moments, since ranks may outnumber the cores. When the world has
// failed, receives are cancelled and sends get a moment; what is pending even then stays with MPI, which must not be
// finalised any more (see plugin_abi.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transport/layout.h"
#include "transport/links.h"
#include "transport/mpi/mpi_session.h"
#include "transport/transport.h"

namespace ringtune {

class MpiLinks final : public Links {
 public:
  // The session's communicator has exactly this world's ranks, in their order.
  // `pids` are for messages and may be empty.
  MpiLinks(Transport& transport, const Layout& layout, std::shared_ptr<MpiSession> session, std::vector<int> pids,
           int64_t timeout_ns);

  // Both peers this rank itself: copies.
  Status exchange(int to, ByteSpan out, int from, MutableByteSpan in) override;

  // MPI's descriptors are its own.
  void abandon_after_fork() override {}

 private:
  // What one exchange moves between whom.
  struct Transfer {
    int to;
    int from;
    size_t out_bytes;
    size_t in_bytes;
    RingtuneMpiProgress done{};

    bool is_received() const { return done.received_bytes == in_bytes; }
  };
  // How long nothing has moved.
  struct Quiet {
    int tries = 0;
    int64_t since_ns = 0;
  };

  // Until the transfer is done, the world has failed, or nothing has moved for the limit.
  Status finish(Transfer& transfer);
  Status pause(const Transfer& transfer, Quiet& quiet);
  Status fail_lost(const Transfer& transfer);
  Status fail_after_timeout(const Transfer& transfer);
  void give_up(Transfer& transfer);

  Transport& transport_;
  const Layout layout_;
  const std::vector<int> pids_;
  std::shared_ptr<MpiSession> session_;
  int64_t timeout_ns_;
};

}  // namespace ringtune
