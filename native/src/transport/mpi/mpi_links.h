// SPDX-License-Identifier: Apache-2.0
// The data plane between any two ranks over an MPI that the job runs under.
//
// MPI moves bytes only during calls, has no event to sleep on, and cannot take a transfer back for certain. So a waiter
// polls: it spins, yields, then sleeps for moments, since ranks may outnumber the cores. When the world has failed,
// receives are cancelled and sends get a moment; a transfer that is pending even then stays with MPI, which must not be
// finalised any more (see plugin_abi.h).
#pragma once

#include <cstdint>
#include <deque>
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
  Status begin(int to, ByteSpan out, int from, MutableByteSpan in) override;
  Status finish() override;
  void give_up() override;

  // MPI's descriptors are its own.
  void abandon_after_fork() override {}

 private:
  // Ranks and sizes of one exchange, and the total that has ever moved when it is through.
  struct Transfer {
    int to;
    int from;
    size_t out_bytes;
    size_t in_bytes;
    uint64_t sent_in_all;
    uint64_t received_in_all;
  };
  // Clock of a time in which no byte has moved.
  struct Quiet {
    int tries = 0;
    int64_t since_ns = 0;
  };

  bool is_sent(const Transfer& transfer) const { return done_.sent_bytes >= transfer.sent_in_all; }
  bool is_received(const Transfer& transfer) const { return done_.received_bytes >= transfer.received_in_all; }
  // Until the transfer is done, the world has failed, or no byte has moved for the limit.
  Status await(const Transfer& transfer);
  Status pause(const Transfer& transfer, Quiet& quiet);
  Status fail_lost(const Transfer& transfer);
  Status fail_after_timeout(const Transfer& transfer);
  // Gives up all transfers, and passes the status on.
  Status failed(Status status);

  Transport& transport_;
  const Layout layout_;
  const std::vector<int> pids_;
  std::shared_ptr<MpiSession> session_;
  int64_t timeout_ns_;
  std::deque<Transfer> begun_;
  uint64_t sent_in_all_ = 0;  // when all that has ever begun is through
  uint64_t received_in_all_ = 0;
  RingtuneMpiProgress done_{};
};

}  // namespace ringtune
