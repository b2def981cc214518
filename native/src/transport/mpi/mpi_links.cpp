// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_links.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <sched.h>

#include "base/clock.h"
#include "base/text.h"
#include "transport/first_failure.h"
#include "transport/peer_name.h"

namespace ringtune {
namespace {

constexpr int kSpins = 20;
// Long enough that a peer on another core is not slept through; a waiter that yields for 1 ms kept four ranks of MPICH
// on two cores from running: 16 MiB took 100 ms instead of 60.
constexpr int64_t kYieldNs = 100'000;
constexpr auto kSleep = std::chrono::microseconds(50);

// Time for a transfer that was given up to end well.
constexpr int64_t kGiveUpNs = 100 * kNsPerMs;

}  // namespace

MpiLinks::MpiLinks(Transport& transport, const Layout& layout, std::shared_ptr<MpiSession> session,
                   std::vector<int> pids, int64_t timeout_ns)
    : transport_(transport),
      layout_(layout),
      pids_(std::move(pids)),
      session_(std::move(session)),
      timeout_ns_(timeout_ns) {}

Status MpiLinks::begin(int to, ByteSpan out, int from, MutableByteSpan in) {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failed(failure->status());
  }
  if (to == layout_.rank() && from == layout_.rank()) {
    std::copy_n(out.begin(), std::min(out.size(), in.size()), in.begin());
    out = {};
    in = {};
  }
  sent_in_all_ += out.size();
  received_in_all_ += in.size();
  begun_.push_back({to, from, out.size(), in.size(), sent_in_all_, received_in_all_});
  return session_->start(to, out, from, in) ? Status::ok_status() : failed(fail_lost(begun_.back()));
}

Status MpiLinks::finish() {
  if (Status s = await(begun_.front()); !s.ok()) return failed(s);
  begun_.pop_front();
  return Status::ok_status();
}

Status MpiLinks::await(const Transfer& transfer) {
  Quiet quiet;
  while (true) {
    RingtuneMpiProgress done{};
    if (!session_->test(done)) {
      return fail_lost(transfer);
    }
    const bool has_moved = done.sent_bytes != done_.sent_bytes || done.received_bytes != done_.received_bytes;
    done_ = done;
    if (is_sent(transfer) && is_received(transfer)) {
      return Status::ok_status();
    }
    if (has_moved) {
      quiet = Quiet();
    }
    if (Status s = pause(transfer, quiet); !s.ok()) return s;
  }
}

Status MpiLinks::pause(const Transfer& transfer, Quiet& quiet) {
  if (++quiet.tries <= kSpins) {
    return Status::ok_status();
  }
  const int64_t now = now_ns();
  if (quiet.since_ns == 0) {
    quiet.since_ns = now;
  }
  if (now - quiet.since_ns < kYieldNs) {
    sched_yield();
    return Status::ok_status();
  }
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  if (transport_.is_interrupted(quiet.since_ns)) {
    return give_up_interrupted(transport_);
  }
  if (now - quiet.since_ns >= timeout_ns_) {
    return fail_after_timeout(transfer);
  }
  std::this_thread::sleep_for(kSleep);
  return Status::ok_status();
}

Status MpiLinks::fail_lost(const Transfer& transfer) {
  const std::string reason = session_->error();
  if (const std::optional<Failure> failure = await_better_news(transport_)) {
    return failure->status();
  }
  const int culprit = is_received(transfer) ? transfer.to : transfer.from;
  return first_failure(
      transport_, {StatusCode::kPeerLostError, culprit,
                   peer_name(layout_, pids_, culprit) + " is lost (noticed by rank " + std::to_string(layout_.rank()) +
                       "): MPI ended the transfer in a running collective: " + reason +
                       "; see its output for the cause. Only shutdown() is usable now"});
}

Status MpiLinks::fail_after_timeout(const Transfer& transfer) {
  const bool is_sender_stuck = !is_received(transfer);
  const int culprit = is_sender_stuck ? transfer.from : transfer.to;
  const uint64_t wanted = is_sender_stuck ? transfer.in_bytes : transfer.out_bytes;
  const uint64_t left =
      is_sender_stuck ? transfer.received_in_all - done_.received_bytes : transfer.sent_in_all - done_.sent_bytes;
  return first_failure(transport_,
                       {StatusCode::kCollectiveTimeout, culprit,
                        peer_name(layout_, pids_, culprit) + (is_sender_stuck ? " sent" : " took") +
                            " nothing by MPI within a running collective for " + format_seconds(timeout_ns_) + " (" +
                            std::to_string(wanted - left) + " of " + std::to_string(wanted) +
                            " bytes were through; noticed by rank " + std::to_string(layout_.rank()) +
                            "); see whether it is stopped or its network is down, or raise RINGTUNE_TIMEOUT_S"});
}

void MpiLinks::give_up() {
  if (begun_.empty()) {
    return;
  }
  begun_.clear();
  session_->cancel();
  const int64_t limit_ns = now_ns() + kGiveUpNs;
  do {
    session_->test(done_);
    if (done_.pending_pieces == 0) {
      return;
    }
    std::this_thread::sleep_for(kSleep);
  } while (now_ns() < limit_ns);
  session_->abandon();
}

Status MpiLinks::failed(Status status) {
  give_up();
  return status;
}

}  // namespace ringtune
