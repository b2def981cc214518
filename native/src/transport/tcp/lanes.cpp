// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/lanes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "transport/tcp/socket.h"

namespace ringtune {
namespace {

// Smallest chunk but a message's last: below, headers and system calls cost more than an even end of the lanes gains.
constexpr size_t kMinStreamedChunkBytes = 16 << 10;
// Time over which the rate of a lane is a mean: dozens of messages, so that single confirmations do not sway it.
constexpr double kRateMemoryNs = 200.0 * kNsPerMs;
// Time over which a lane's rate is forgotten if too little goes by it to show that it still holds.
constexpr double kTrustNs = 5000.0 * kNsPerMs;
// Messages that a peer may be ahead: far more than any collective begins at once.
constexpr uint32_t kMaxMessagesAhead = 1 << 20;

void take_loss(const Moved& moved, size_t lane, LaneTurn& turn) {
  if (moved.is_lost) {
    turn.lost_lane = static_cast<int>(lane);
    turn.error = moved.error;
  }
  turn.bytes += moved.bytes;
}

}  // namespace

SendingLanes::SendingLanes(const std::vector<int>& fds, std::span<std::atomic<uint64_t>> sent_bytes,
                           const TlsSessions& tls)
    : sent_bytes_(sent_bytes), used_(fds.size()) {
  for (const int fd : fds) {
    lanes_.push_back({fd, tls_of(tls, fd)});
  }
}

void SendingLanes::push(ByteSpan message, size_t& done_bytes) {
  messages_.push_back({next_number_++, message, 0, &done_bytes});
  pending_ += message.size();
}

LaneTurn SendingLanes::turn() {
  LaneTurn turn;
  if (!messages_.empty()) {
    look_for_room();
  }
  for (size_t number = 0; number < used_ && turn.lost_lane < 0; ++number) {
    Lane& lane = lanes_[number];
    if (!lane.is_busy() && !messages_.empty() && has_room(number)) {
      load(number);
    }
    if (lane.is_busy()) {
      send_some(number, turn);
    }
  }
  return turn;
}

// A lane without room must not hold a chunk that another could send.
void SendingLanes::look_for_room() {
  room_.clear();
  loads_.clear();
  const int64_t now = now_ns();
  const auto passed_ns = static_cast<double>(now - std::exchange(looked_ns_, now));
  const double weight = 1 - std::exp(-passed_ns / kRateMemoryNs);
  for (size_t number = 0; number < used_; ++number) {
    Lane& lane = lanes_[number];
    room_.push_back({lane.is_busy() ? -1 : lane.fd, POLLOUT, 0});
    loads_.push_back(look_at(lane, weight));
  }
  trust_limited(1 - std::exp(-passed_ns / kTrustNs));
  poll(room_.data(), room_.size(), 0);
}

// A lane that gets too little to show its rate is taken for an average one after a while, so that it gets more.
void SendingLanes::trust_limited(double weight) {
  double sum = 0;
  double known = 0;
  for (size_t number = 0; number < used_; ++number) {
    sum += lanes_[number].s_per_byte > 0 ? 1 / lanes_[number].s_per_byte : 0;
    known += lanes_[number].s_per_byte > 0 ? 1 : 0;
  }
  for (size_t number = 0; number < used_; ++number) {
    double& s_per_byte = lanes_[number].s_per_byte;
    if (loads_[number].is_limited && s_per_byte > known / sum) {
      s_per_byte += weight * (known / sum - s_per_byte);
    }
  }
}

// The mean is that of the time a byte takes: a link that lets a first burst through at any rate is no faster for that.
LaneLoad SendingLanes::look_at(Lane& lane, double weight) const {
  LaneLoad load = lane_load(lane.fd);
  const double s_per_byte = load.bytes_per_s > 0 ? 1 / load.bytes_per_s : 0;
  if (s_per_byte > 0 && (!load.is_limited || s_per_byte < lane.s_per_byte)) {
    lane.s_per_byte = lane.s_per_byte == 0 ? s_per_byte : lane.s_per_byte + weight * (s_per_byte - lane.s_per_byte);
  }
  load.bytes_per_s = lane.s_per_byte > 0 ? 1 / lane.s_per_byte : 0;
  load.queued_bytes += static_cast<double>(lane.header.size() + lane.payload.size());
  return load;
}

void SendingLanes::load(size_t number) {
  Lane& lane = lanes_[number];
  Message& message = messages_.front();
  const double share = lane_shares(static_cast<double>(message.rest.size()), loads_)[number];
  lane.has_share = share > 0;
  if (!lane.has_share) {
    return;  // the others are through before this lane could begin
  }
  const size_t bytes = std::min(std::clamp(static_cast<size_t>(share), kMinStreamedChunkBytes, kMaxStreamedChunkBytes),
                                message.rest.size());
  lane.header = encode(ChunkHeader{message.number, static_cast<uint32_t>(bytes), message.offset});
  lane.payload = message.rest.first(bytes);
  lane.done_bytes = message.done_bytes;
  loads_[number].queued_bytes += static_cast<double>(bytes);
  message.rest = message.rest.subspan(bytes);
  message.offset += bytes;
  if (message.rest.empty()) {
    messages_.pop_front();
  }
}

void SendingLanes::send_some(size_t number, LaneTurn& turn) {
  Lane& lane = lanes_[number];
  if (!lane.header.empty()) {
    const Moved moved = lane.tls == nullptr ? try_send(lane.fd, lane.header, true) : lane.tls->try_send(lane.header);
    take_loss(moved, number, turn);
    lane.header.erase(lane.header.begin(), lane.header.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
    if (!lane.header.empty()) {
      return;
    }
  }
  const Moved moved = try_send(lane.fd, lane.tls, lane.payload);
  take_loss(moved, number, turn);
  lane.payload = lane.payload.subspan(moved.bytes);
  *lane.done_bytes += moved.bytes;
  pending_ -= moved.bytes;
  sent_bytes_[number].fetch_add(moved.bytes, std::memory_order_relaxed);
}

void SendingLanes::add_awaited(std::vector<pollfd>& polled) const {
  for (size_t number = 0; number < used_; ++number) {
    if (lanes_[number].is_busy() || (!messages_.empty() && lanes_[number].has_share)) {
      polled.push_back({lanes_[number].fd, POLLOUT, 0});
    }
  }
}

void SendingLanes::give_up() {
  messages_.clear();
  pending_ = 0;
  for (Lane& lane : lanes_) {
    lane = {lane.fd, lane.tls};
  }
}

ReceivingLanes::ReceivingLanes(const std::vector<int>& fds, const TlsSessions& tls) : used_(fds.size()) {
  for (const int fd : fds) {
    lanes_.push_back({fd, tls_of(tls, fd)});
  }
}

void ReceivingLanes::push(MutableByteSpan message, size_t& done_bytes) {
  messages_.push_back({message, 0, &done_bytes});
}

LaneTurn ReceivingLanes::turn() {
  LaneTurn turn;
  for (size_t number = 0; number < used_ && turn.lost_lane < 0 && !messages_.empty(); ++number) {
    if (!lanes_[number].has_ended) {
      receive_some(number, turn);
    }
  }
  return turn;
}

void ReceivingLanes::receive_some(size_t number, LaneTurn& turn) {
  Lane& lane = lanes_[number];
  if (lane.target.empty() && !receive_header(number, turn)) {
    return;
  }
  const Moved moved = try_receive(lane.fd, lane.tls, lane.target);
  take_loss(moved, number, turn);
  lane.target = lane.target.subspan(moved.bytes);
  *lane.done_bytes += moved.bytes;
  drop_done();
}

bool ReceivingLanes::receive_header(size_t number, LaneTurn& turn) {
  Lane& lane = lanes_[number];
  if (const size_t arrived = lane.header.size(); arrived < kChunkHeaderBytes) {
    lane.header.resize(kChunkHeaderBytes);
    const Moved moved = try_receive(lane.fd, lane.tls, MutableByteSpan(lane.header).subspan(arrived));
    lane.header.resize(arrived + moved.bytes);
    lane.has_ended = moved.is_lost && moved.error == 0 && arrived == 0;
    if (!lane.has_ended || have_all_ended()) {
      take_loss(moved, number, turn);
    }
  }
  if (lane.header.size() == kChunkHeaderBytes && !place(lane)) {
    turn.lost_lane = static_cast<int>(number);
    turn.is_broken = true;
  }
  return !lane.target.empty();
}

bool ReceivingLanes::place(Lane& lane) {
  ChunkHeader header;
  if (!decode(lane.header, header)) {
    return false;
  }
  const uint32_t ahead = header.message - first_number_;
  lane.is_parked = ahead >= messages_.size() && ahead < kMaxMessagesAhead;
  if (lane.is_parked) {
    return true;
  }
  if (ahead >= kMaxMessagesAhead) {
    return false;
  }
  Message& message = messages_[ahead];
  const size_t size = message.bytes.size();
  message.announced_bytes += header.bytes;
  if (message.announced_bytes > size || header.offset > size - header.bytes) {
    return false;
  }
  lane.header.clear();
  lane.target = message.bytes.subspan(header.offset, header.bytes);
  lane.done_bytes = message.done_bytes;
  return true;
}

bool ReceivingLanes::have_all_ended() const {
  return std::all_of(lanes_.begin(), lanes_.begin() + static_cast<std::ptrdiff_t>(used_),
                     [](const Lane& lane) { return lane.has_ended; });
}

void ReceivingLanes::drop_done() {
  while (!messages_.empty() && *messages_.front().done_bytes == messages_.front().bytes.size()) {
    messages_.pop_front();
    ++first_number_;
  }
}

void ReceivingLanes::add_awaited(std::vector<pollfd>& polled) const {
  for (size_t number = 0; number < used_ && !messages_.empty(); ++number) {
    if (!lanes_[number].is_parked && !lanes_[number].has_ended) {
      polled.push_back({lanes_[number].fd, POLLIN, 0});
    }
  }
}

void ReceivingLanes::give_up() {
  messages_.clear();
  for (Lane& lane : lanes_) {
    lane = {lane.fd, lane.tls};
  }
}

}  // namespace ringtune
