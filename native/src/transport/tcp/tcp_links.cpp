// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_links.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "transport/first_failure.h"
#include "transport/peer_name.h"
#include "transport/tcp/socket.h"

namespace ringtune {
namespace {

// Bytes per system call: each side has its turn, and the receiver finds in its caches what the sender has just copied.
// Two ranks over loopback, 1 MiB both ways: 1.9 GB/s with this and the buffers below, 1.4 GB/s without (best of 6).
constexpr size_t kTurnBytes = 256 << 10;

// In flight per direction, so that a rank that computes for a while does not stop its peers.
constexpr int kBufferBytes = 4 << 20;

// Tries with a yield between them before sleeping: ranks may outnumber the cores, and a waiter that spins without
// keeps its peer from running (100 spins: 60 to 115 us for 64 bytes, against 20 to 45 us).
constexpr int kYields = 20;
// Between two looks at the world's failure.
constexpr int64_t kPollNs = 100 * kNsPerMs;

template <typename Span>
Span turn(Span bytes, size_t done_bytes) {
  return bytes.subspan(done_bytes, std::min(kTurnBytes, bytes.size() - done_bytes));
}

}  // namespace

TcpLinks::TcpLinks(Transport& transport, const Layout& layout, std::vector<int> pids, std::vector<int> data_fds,
                   int64_t timeout_ns)
    : transport_(transport),
      layout_(layout),
      pids_(std::move(pids)),
      fds_(std::move(data_fds)),
      timeout_ns_(timeout_ns) {
  for (const int fd : fds_) {
    if (fd >= 0) {
      adopt_socket(fd, timeout_ns);
      widen_buffers(fd, kBufferBytes);
    }
  }
}

TcpLinks::~TcpLinks() { abandon_after_fork(); }

void TcpLinks::abandon_after_fork() {
  for (int& fd : fds_) {
    if (fd >= 0) {
      close(std::exchange(fd, -1));
    }
  }
}

Status TcpLinks::exchange(int to, ByteSpan out, int from, MutableByteSpan in) {
  if (to == layout_.rank() && from == layout_.rank()) {
    std::copy_n(out.begin(), std::min(out.size(), in.size()), in.begin());
    return Status::ok_status();
  }
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  Side sending{to, fd_of(to, out.size()), out, {}};
  Side receiving{from, fd_of(from, in.size()), {}, in};
  Quiet quiet;
  while (!sending.is_done() || !receiving.is_done()) {
    ++quiet.tries;
    if (Status s = advance(sending, quiet); !s.ok()) return s;
    if (Status s = advance(receiving, quiet); !s.ok()) return s;
    if (Status s = pause(sending, receiving, quiet); !s.ok()) return s;
  }
  return Status::ok_status();
}

Status TcpLinks::advance(Side& side, Quiet& quiet) {
  if (side.is_done()) {
    return Status::ok_status();
  }
  const Moved moved = side.in.empty() ? try_send(side.fd, turn(side.out, side.done_bytes))
                                      : try_receive(side.fd, turn(side.in, side.done_bytes));
  if (moved.is_lost) {
    return fail_lost(side, moved.error);
  }
  if (moved.bytes > 0) {
    side.done_bytes += moved.bytes;
    quiet = Quiet();
  }
  return Status::ok_status();
}

Status TcpLinks::pause(const Side& sending, const Side& receiving, Quiet& quiet) {
  if (quiet.tries <= kYields) {
    if (quiet.tries > 0) {
      sched_yield();
    }
    return Status::ok_status();
  }
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  const int64_t now = now_ns();
  if (quiet.since_ns == 0) {
    quiet.since_ns = now;
  }
  const int64_t left_ns = timeout_ns_ - (now - quiet.since_ns);
  if (left_ns <= 0) {
    return fail_after_timeout(sending, receiving);
  }
  pollfd polled[] = {{sending.is_done() ? -1 : sending.fd, POLLOUT, 0},
                     {receiving.is_done() ? -1 : receiving.fd, POLLIN, 0}};
  poll(polled, std::size(polled), static_cast<int>(std::min(left_ns, kPollNs) / kNsPerMs) + 1);
  return Status::ok_status();
}

Status TcpLinks::fail_lost(const Side& side, int error) {
  if (const std::optional<Failure> failure = await_better_news(transport_)) {
    return failure->status();
  }
  // Where rank 0 itself is silent no news comes: the neighbour has given up on it, and left.
  if (const int silent = transport_.silent_rank(); silent != kNoCulprit && silent != side.rank) {
    return first_failure(
        transport_,
        {StatusCode::kCollectiveTimeout, silent,
         peer_name(layout_, pids_, silent) + " has fallen silent, and " + peer_name(layout_, pids_, side.rank) +
             " ended its data connection (noticed by rank " + std::to_string(layout_.rank()) +
             "); see whether it is stopped or its network is down, or raise RINGTUNE_TIMEOUT_S"});
  }
  return first_failure(
      transport_,
      {StatusCode::kPeerLostError, side.rank,
       peer_name(layout_, pids_, side.rank) + " is lost (noticed by rank " + std::to_string(layout_.rank()) +
           "): its data connection ended in a running collective, " + "after " + std::to_string(side.done_bytes) +
           " of " + std::to_string(side.wanted_bytes()) + " bytes: " + describe_loss(error) +
           "; see its output and the network between the hosts. Only shutdown() is usable now"});
}

Status TcpLinks::fail_after_timeout(const Side& sending, const Side& receiving) {
  const bool is_sender_stuck = !receiving.is_done();
  const Side& stuck = is_sender_stuck ? receiving : sending;
  // The neighbour may itself wait for another. Who knows of a silent rank says so at once, the others wait for that.
  const int silent = transport_.silent_rank();
  if (silent == kNoCulprit) {
    if (const std::optional<Failure> failure = await_better_news(transport_)) {
      return failure->status();
    }
  }
  const std::string cause =
      silent == kNoCulprit || silent == stuck.rank ? "" : peer_name(layout_, pids_, silent) + " has fallen silent; ";
  return first_failure(transport_,
                       {StatusCode::kCollectiveTimeout, silent == kNoCulprit ? stuck.rank : silent,
                        cause + peer_name(layout_, pids_, stuck.rank) + (is_sender_stuck ? " sent" : " took") +
                            " nothing within a running collective for " + format_seconds(timeout_ns_) + " (" +
                            std::to_string(stuck.done_bytes) + " of " + std::to_string(stuck.wanted_bytes()) +
                            " bytes were through; noticed by rank " + std::to_string(layout_.rank()) +
                            "); see whether it is stopped or its network is down, or raise RINGTUNE_TIMEOUT_S"});
}

}  // namespace ringtune
