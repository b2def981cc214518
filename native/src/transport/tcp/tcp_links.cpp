// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_links.h"

#include <algorithm>
#include <cstring>
#include <span>
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

// Bytes per system call: each side has its turn, and the receiver finds the sender's bytes in its caches. Two ranks
// over loopback, 1 MiB both ways: 1.9 GB/s with this and the buffers below, 1.4 GB/s without (best of 6).
constexpr size_t kTurnBytes = 256 << 10;

// In flight per direction, so that a rank that computes for a while does not stop its peers.
constexpr int kBufferBytes = 4 << 20;

// Messages up to this size go by the first connection alone, without headers: to share them would cost more than it
// saves.
constexpr size_t kMinSharedBytes = (64 << 10) + 1;

// Waiting in a lane's socket for TCP to send: enough for a rank that computes for a moment, and little beside a
// message.
constexpr int kUnsentBytes = 256 << 10;

// Tries with a yield between them before sleeping: ranks may outnumber the cores, and a waiter that spins without
// keeps its peer from running (100 spins: 60 to 115 us for 64 bytes, against 20 to 45 us).
constexpr int kYields = 20;
// Between two looks at the world's failure.
constexpr int64_t kPollNs = 100 * kNsPerMs;

// "its data connection to 10.0.0.1 (eth0)", named by this host's end.
std::string describe_connection(int fd) {
  const std::string end = describe_own_end(fd);
  return "its data connection" + (end.empty() ? "" : " to " + end);
}

template <typename Span>
Span turn(Span bytes, size_t done_bytes) {
  return bytes.subspan(done_bytes, std::min(kTurnBytes, bytes.size() - done_bytes));
}

}  // namespace

TcpLinks::TcpLinks(Transport& transport, const Layout& layout, std::vector<int> pids, std::vector<int> data_fds,
                   int64_t timeout_ns, TlsSessions tls)
    : transport_(transport),
      layout_(layout),
      pids_(std::move(pids)),
      fds_(std::move(data_fds)),
      tls_(std::move(tls)),
      lane_count_(fds_.size() / static_cast<size_t>(layout.world_size()) - 1),
      timeout_ns_(timeout_ns) {
  for (const int fd : fds_) {
    if (fd >= 0) {
      adopt_socket(fd, timeout_ns);
      widen_buffers(fd, kBufferBytes);
    }
  }
  for (int rank = 0; rank < layout_.world_size(); ++rank) {
    add_pair(rank);
  }
}

void TcpLinks::add_pair(int rank) {
  std::vector<int> fds;
  for (size_t lane = 1; lane <= lane_count_; ++lane) {
    const int fd = fds_[lane * static_cast<size_t>(layout_.world_size()) + static_cast<size_t>(rank)];
    if (fd >= 0) {
      limit_unsent(fd, kUnsentBytes);
      fds.push_back(fd);
    }
  }
  if (!fds.empty()) {
    const std::span counts = std::span(sent_bytes_).subspan(1, fds.size());
    pairs_.push_back({rank, fds, SendingLanes(fds, counts, tls_), ReceivingLanes(fds, tls_)});
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

void TcpLinks::use_connections(uint64_t connections) {
  used_lanes_ = connections == 1 ? 0 : std::min<size_t>(connections, lane_count_);
  for (Pair& pair : pairs_) {
    pair.sending.use(used_lanes_);
    pair.receiving.use(used_lanes_);
  }
}

void TcpLinks::give_up() {
  for (Pair& pair : pairs_) {
    pair.sending.give_up();
    pair.receiving.give_up();
  }
  begun_.clear();
}

TcpLinks::Pair* TcpLinks::lanes_to(int rank, size_t bytes) {
  if (used_lanes_ == 0 || bytes < kMinSharedBytes) {
    return nullptr;
  }
  const auto found = std::find_if(pairs_.begin(), pairs_.end(), [rank](const Pair& pair) { return pair.rank == rank; });
  return found == pairs_.end() ? nullptr : &*found;
}

Status TcpLinks::begin(int to, ByteSpan out, int from, MutableByteSpan in) {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failed(failure->status());
  }
  if (to == layout_.rank() && from == layout_.rank()) {
    std::copy_n(out.begin(), std::min(out.size(), in.size()), in.begin());
    out = {};
    in = {};
  }
  Pair* const pair_to = lanes_to(to, out.size());
  Pair* const pair_from = lanes_to(from, in.size());
  begun_.push_back({{to, pair_to != nullptr ? -1 : fd_of(to, out.size()), out, {}},
                    {from, pair_from != nullptr ? -1 : fd_of(from, in.size()), {}, in}});
  if (pair_to != nullptr) {
    pair_to->sending.push(out, begun_.back().sending.done_bytes);
  }
  if (pair_from != nullptr) {
    pair_from->receiving.push(in, begun_.back().receiving.done_bytes);
  }
  // Whatever the system takes at once moves while the caller does something else.
  Quiet quiet;
  do {
    ++quiet.tries;
    if (Status s = advance_all(quiet); !s.ok()) return failed(s);
  } while (quiet.tries == 0);
  return Status::ok_status();
}

Status TcpLinks::finish() {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failed(failure->status());
  }
  Quiet quiet;
  while (!begun_.front().sending.is_done() || !begun_.front().receiving.is_done()) {
    ++quiet.tries;
    if (Status s = advance_all(quiet); !s.ok()) return failed(s);
    if (Status s = pause(begun_.front(), quiet); !s.ok()) return failed(s);
  }
  begun_.pop_front();
  return Status::ok_status();
}

Status TcpLinks::advance_all(Quiet& quiet) {
  active_.clear();
  for (Exchange& exchange : begun_) {
    for (Side* side : {&exchange.sending, &exchange.receiving}) {
      if (side->is_done() || side->fd < 0 || !is_next(*side)) {
        continue;
      }
      if (Status s = advance(*side, quiet); !s.ok()) return s;
      if (!side->is_done()) {
        active_.push_back(side);
      }
    }
  }
  return used_lanes_ == 0 ? Status::ok_status() : advance_lanes(quiet);
}

Status TcpLinks::advance_lanes(Quiet& quiet) {
  for (Pair& pair : pairs_) {
    for (const bool is_sending : {true, false}) {
      if (is_sending ? pair.sending.is_idle() : pair.receiving.is_idle()) {
        continue;
      }
      const LaneTurn turn = is_sending ? pair.sending.turn() : pair.receiving.turn();
      if (turn.lost_lane >= 0) {
        return fail_lost_lane(pair, is_sending, turn);
      }
      if (turn.bytes > 0) {
        quiet = Quiet();
      }
    }
  }
  return Status::ok_status();
}

Status TcpLinks::advance(Side& side, Quiet& quiet) {
  TlsSession* tls = tls_of(tls_, side.fd);
  const Moved moved = side.is_sending() ? try_send(side.fd, tls, turn(side.out, side.done_bytes))
                                        : try_receive(side.fd, tls, turn(side.in, side.done_bytes));
  if (moved.is_lost) {
    return fail_lost(side, side.fd, describe_loss(moved.error));
  }
  if (moved.bytes > 0) {
    side.done_bytes += moved.bytes;
    if (side.is_sending()) {
      sent_bytes_.front().fetch_add(moved.bytes, std::memory_order_relaxed);
    }
    quiet = Quiet();
  }
  return Status::ok_status();
}

bool TcpLinks::is_next(const Side& side) const {
  return std::none_of(active_.begin(), active_.end(), [&side](const Side* earlier) {
    return earlier->fd == side.fd && earlier->is_sending() == side.is_sending();
  });
}

Status TcpLinks::pause(const Exchange& awaited, Quiet& quiet) {
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
  if (transport_.is_interrupted(quiet.since_ns)) {
    return give_up_interrupted(transport_);
  }
  const int64_t left_ns = timeout_ns_ - (now - quiet.since_ns);
  if (left_ns <= 0) {
    return fail_after_timeout(awaited);
  }
  polled_.clear();
  for (const Side* side : active_) {
    polled_.push_back({side->fd, static_cast<int16_t>(side->is_sending() ? POLLOUT : POLLIN), 0});
  }
  for (const Pair& pair : pairs_) {
    pair.sending.add_awaited(polled_);
    pair.receiving.add_awaited(polled_);
  }
  poll(polled_.data(), polled_.size(), static_cast<int>(std::min(left_ns, kPollNs) / kNsPerMs) + 1);
  return Status::ok_status();
}

Status TcpLinks::failed(Status status) {
  give_up();
  return status;
}

// The oldest message that goes by the lanes stands for all that have begun.
Status TcpLinks::fail_lost_lane(const Pair& pair, bool is_sending, const LaneTurn& turn) {
  const auto is_affected = [&](const Exchange& exchange) {
    const Side& side = is_sending ? exchange.sending : exchange.receiving;
    return side.rank == pair.rank && side.fd < 0 && !side.is_done();
  };
  const auto found = std::find_if(begun_.begin(), begun_.end(), is_affected);
  return fail_lost(is_sending ? found->sending : found->receiving, pair.fds[static_cast<size_t>(turn.lost_lane)],
                   turn.is_broken ? "the peer sent what is no part of a message" : describe_loss(turn.error));
}

Status TcpLinks::fail_lost(const Side& side, int fd, const std::string& how) {
  if (const std::optional<Failure> failure = await_better_news(transport_)) {
    return failure->status();
  }
  // Where rank 0 itself is silent no news comes: the neighbour has given up on it, and left.
  if (const int silent = transport_.silent_rank(); silent != kNoCulprit && silent != side.rank) {
    return first_failure(
        transport_,
        {StatusCode::kCollectiveTimeout, silent,
         describe_silence(transport_, layout_, pids_, silent) + ", and " + peer_name(layout_, pids_, side.rank) +
             " ended its data connection (noticed by rank " + std::to_string(layout_.rank()) +
             "); see whether it is stopped or its network is down, or raise RINGTUNE_TIMEOUT_S"});
  }
  return first_failure(
      transport_,
      {StatusCode::kPeerLostError, side.rank,
       peer_name(layout_, pids_, side.rank) + " is lost (noticed by rank " + std::to_string(layout_.rank()) +
           "): " + describe_connection(fd) + " ended in a running collective, after " +
           std::to_string(side.done_bytes) + " of " + std::to_string(side.wanted_bytes()) + " bytes: " + how +
           "; see its output and the network between the hosts. Only shutdown() is usable now"});
}

// A link that went down shows in the bytes that its other end has not confirmed.
std::string TcpLinks::describe_unconfirmed(int rank) const {
  const auto world_size = static_cast<size_t>(layout_.world_size());
  std::string ends;
  for (size_t place = static_cast<size_t>(rank); place < fds_.size(); place += world_size) {
    const std::string end = fds_[place] >= 0 && unconfirmed_bytes(fds_[place]) > 0 ? describe_own_end(fds_[place]) : "";
    if (!end.empty() && ends.find(end) == std::string::npos) {
      ends += (ends.empty() ? "" : ", ") + end;
    }
  }
  return ends.empty() ? "" : ". Bytes to it are unconfirmed by way of " + ends;
}

Status TcpLinks::fail_after_timeout(const Exchange& awaited) {
  const bool is_sender_stuck = !awaited.receiving.is_done();
  const Side& stuck = is_sender_stuck ? awaited.receiving : awaited.sending;
  // The neighbour may itself wait for another. A rank that knows of a silent one reports it at once, the others wait
  // for that.
  const int silent = transport_.silent_rank();
  if (silent == kNoCulprit) {
    if (const std::optional<Failure> failure = await_better_news(transport_)) {
      return failure->status();
    }
  }
  const std::string cause =
      silent == kNoCulprit || silent == stuck.rank ? "" : describe_silence(transport_, layout_, pids_, silent) + "; ";
  return first_failure(transport_,
                       {StatusCode::kCollectiveTimeout, silent == kNoCulprit ? stuck.rank : silent,
                        cause + peer_name(layout_, pids_, stuck.rank) + (is_sender_stuck ? " sent" : " took") +
                            " nothing within a running collective for " + format_seconds(timeout_ns_) + " (" +
                            std::to_string(stuck.done_bytes) + " of " + std::to_string(stuck.wanted_bytes()) +
                            " bytes were through; noticed by rank " + std::to_string(layout_.rank()) + ")" +
                            describe_unconfirmed(stuck.rank) +
                            "; see whether it is stopped or its network is down, or raise RINGTUNE_TIMEOUT_S"});
}

}  // namespace ringtune
