// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/control_links.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "transport/peer_name.h"

namespace ringtune {
namespace {

// A neighbour's entry in the failure record wakes no socket: it is looked for this often.
constexpr int kLookMs = 100;
// A rank that is stopped, swapped out or cut off falls silent; one that computes or waits does not.
constexpr int64_t kHeartbeatNs = kNsPerS / 4;
constexpr int64_t kSilenceNs = kNsPerS;
constexpr int64_t kDepartLimitNs = 2 * kNsPerS;
constexpr auto kDepartLook = std::chrono::milliseconds(1);
constexpr size_t kScratchBytes = 64 << 10;

}  // namespace

ControlLinks::ControlLinks(Transport& transport, const Layout& layout, std::vector<int> pids,
                           const std::vector<int>& fds, int64_t timeout_ns, const TlsSessions& tls)
    : transport_(transport),
      layout_(layout),
      pids_(std::move(pids)),
      by_rank_(static_cast<size_t>(layout.world_size()), nullptr),
      scratch_(kScratchBytes),
      wake_fd_(above_standard_streams(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  for (size_t rank = 0; rank < fds.size(); ++rank) {
    if (fds[rank] >= 0) {
      const auto found = tls.find(fds[rank]);
      links_.push_back(std::make_unique<ControlLink>(static_cast<int>(rank), fds[rank], timeout_ns,
                                                     found == tls.end() ? nullptr : found->second));
      by_rank_[rank] = links_.back().get();
      all_.push_back(links_.back().get());
      if (carries_messages(static_cast<int>(rank))) {
        for_messages_.push_back(links_.back().get());
      }
    }
  }
}

ControlLinks::~ControlLinks() {
  stop();
  if (wake_fd_ >= 0) {
    close(wake_fd_);
  }
}

void ControlLinks::start() {
  if (!links_.empty()) {
    thread_ = std::thread([this] { run(); });
  }
}

bool ControlLinks::has_room(ByteSpan payload) const {
  const auto has_room = [&payload](const ControlLink* link) { return link->has_room(payload.size()); };
  return payload.size() <= kMaxPayloadBytes && std::ranges::all_of(for_messages_, has_room);
}

bool ControlLinks::try_receive(int from_rank, Bytes& message) {
  ControlLink* link = link_of(from_rank);
  return link != nullptr && link->take_message(message);
}

bool ControlLinks::has_departed(int peer_rank) const {
  const ControlLink* link = link_of(peer_rank);
  return link != nullptr && link->has_departed();
}

int ControlLinks::silent_rank() const {
  int silent = kNoCulprit;
  int64_t longest_ns = kSilenceNs;
  const int64_t now = now_ns();
  for (const auto& link : links_) {
    if (now - link->heard_ns() > longest_ns && !link->has_goodbye()) {
      longest_ns = now - link->heard_ns();
      silent = link->peer_rank();
    }
  }
  return silent;
}

int64_t ControlLinks::round_trip_ns() const {
  int64_t longest_ns = 0;
  for (const ControlLink* link : for_messages_) {
    longest_ns = std::max(longest_ns, link->round_trip_ns());
  }
  return longest_ns;
}

std::string ControlLinks::describe_way(int rank) const {
  const ControlLink* link = link_of(rank);
  const std::string end = link == nullptr ? "" : link->describe_own_end();
  return end.empty() ? "" : " by way of " + end;
}

uint8_t ControlLinks::beacon_of(int rank) const {
  const ControlLink* link = link_of(rank);
  return link == nullptr ? 0 : link->beacon();
}

void ControlLinks::forward(const Failure& failure) {
  if (!has_forwarded_.exchange(true)) {
    send_to_all(FrameType::kAbort, encode(failure));
  }
}

void ControlLinks::depart() {
  if (!thread_.joinable()) {
    return;
  }
  is_departing_.store(true);
  send_to_all(FrameType::kDepart, {});
  // Closing a socket that has unread bytes drops sent bytes that the peer's kernel has not confirmed.
  const int64_t limit_ns = now_ns() + kDepartLimitNs;
  while (!is_flushed() && now_ns() < limit_ns) {
    std::this_thread::sleep_for(kDepartLook);
  }
  stop();
  for (const auto& link : links_) {
    link->close();
  }
}

void ControlLinks::abandon_after_fork() {
  if (thread_.joinable()) {
    thread_.detach();
  }
  for (const auto& link : links_) {
    link->abandon();
  }
  close(std::exchange(wake_fd_, -1));
}

void ControlLinks::run() {
  std::vector<pollfd> polled(links_.size() + 1);
  while (!is_stopping_.load()) {
    for (size_t i = 0; i < links_.size(); ++i) {
      polled[i] = links_[i]->watched();
    }
    polled.back() = {wake_fd_, POLLIN, 0};
    const int ready = poll(polled.data(), polled.size(), kLookMs);
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_fd_, &wakes, sizeof(wakes));
    [[maybe_unused]] const auto forwarded = transport_.failure();
    beat();
    for (size_t i = 0; ready > 0 && i < links_.size(); ++i) {
      serve(*links_[i], polled[i].revents);
    }
  }
}

void ControlLinks::beat() {
  if (const int64_t now = now_ns(); now >= next_beat_ns_) {
    next_beat_ns_ = now + kHeartbeatNs;
    const std::byte beacon{beacon_.load(std::memory_order_relaxed)};
    const auto has_room = [](const ControlLink* link) { return link->has_room(sizeof(std::byte)); };
    if (!is_departing_.load() && std::ranges::all_of(all_, has_room)) {
      send_to_all(FrameType::kHeartbeat, {&beacon, 1});
    }
  }
}

void ControlLinks::serve(ControlLink& link, short events) {
  if ((events & POLLOUT) != 0) {
    link.flush();
  }
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) {
    return;
  }
  ControlLink::Received received = link.receive(scratch_);
  bool is_sound = true;
  for (Frame& frame : received.frames) {
    is_sound = is_sound && handle(link, frame);
  }
  if (!is_sound || received.is_broken) {
    lose(link, "it sent a control frame that cannot be read; all ranks must run one version");
  } else if (received.is_lost && !link.has_goodbye()) {
    lose(link, "its control connection ended without a goodbye: " + describe_loss(received.error));
  } else if (received.is_lost) {
    link.end();
  }
  transport_.notify();
}

bool ControlLinks::handle(ControlLink& link, Frame& frame) {
  const FrameType message = layout_.rank() == kCoordinator ? FrameType::kRequest : FrameType::kResponse;
  if (frame.type == FrameType::kAbort) {
    return take_abort(frame.payload);
  }
  if (frame.type == FrameType::kHeartbeat && frame.payload.size() == 1) {
    link.set_beacon(static_cast<uint8_t>(frame.payload.front()));
    return true;
  }
  if (frame.type == FrameType::kDepart && frame.payload.empty()) {
    link.set_goodbye();
    return true;
  }
  if (frame.type == message && carries_messages(link.peer_rank())) {
    link.deliver(std::move(frame.payload));
    return true;
  }
  return false;
}

bool ControlLinks::take_abort(ByteSpan payload) {
  Failure failure;
  if (!decode(payload, failure) || failure.culprit_rank < kNoCulprit || failure.culprit_rank >= layout_.world_size()) {
    return false;
  }
  transport_.fail(failure);
  return true;
}

void ControlLinks::lose(ControlLink& link, const std::string& how) {
  link.end();
  transport_.fail({StatusCode::kPeerLostError, link.peer_rank(),
                   peer_name(layout_, pids_, link.peer_rank()) + " is lost (noticed by rank " +
                       std::to_string(layout_.rank()) + "): " + how +
                       "; see its output and the network between the hosts. Only shutdown() is usable now"});
}

bool ControlLinks::carries_messages(int peer_rank) const {
  const int member = layout_.rank() == kCoordinator ? peer_rank : layout_.rank();
  return member == layout_.leader_of(layout_.host_of(member));
}

void ControlLinks::send_to(const std::vector<ControlLink*>& links, ByteSpan frame) {
  bool is_left = false;
  for (ControlLink* link : links) {
    is_left |= link->send(frame);
  }
  if (is_left) {
    wake();
  }
}

bool ControlLinks::is_flushed() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->is_flushed(); });
}

void ControlLinks::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void ControlLinks::stop() {
  if (thread_.joinable()) {
    is_stopping_.store(true);
    wake();
    thread_.join();
  }
}

}  // namespace ringtune
