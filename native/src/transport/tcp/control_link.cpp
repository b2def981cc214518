// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/control_link.h"

#include <cerrno>
#include <utility>

#include <unistd.h>

#include "base/clock.h"

namespace ringtune {
namespace {

// Reads of one link before the others have their turn.
constexpr int kReadsPerTurn = 16;

}  // namespace

ControlLink::ControlLink(int peer_rank, int fd, int64_t timeout_ns, std::shared_ptr<TlsSession> tls)
    : peer_rank_(peer_rank), fd_(fd), tls_(std::move(tls)), heard_ns_(now_ns()) {
  adopt_socket(fd, timeout_ns);
}

ControlLink::~ControlLink() { abandon(); }

bool ControlLink::has_room(size_t payload_bytes) const {
  const std::lock_guard lock(mutex_);
  return !is_open_ || output_.size() + payload_bytes <= kMaxOutputBytes;
}

bool ControlLink::send(ByteSpan frame) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) {
    return false;
  }
  size_t sent = 0;
  if (output_.empty()) {
    // Straight from here: waking the link thread would cost more than the call.
    sent = send_some(frame);
  }
  output_.insert(output_.end(), frame.begin() + static_cast<std::ptrdiff_t>(sent), frame.end());
  return !output_.empty();
}

bool ControlLink::is_flushed() const {
  const std::lock_guard lock(mutex_);
  return !is_open_ || (output_.empty() && unconfirmed_bytes(fd_) == 0);
}

bool ControlLink::take_message(Bytes& message) {
  const std::lock_guard lock(mutex_);
  if (inbox_.empty()) {
    return false;
  }
  message = std::move(inbox_.front());
  inbox_.pop_front();
  inbox_bytes_ -= message.size();
  return true;
}

bool ControlLink::has_departed() const {
  const std::lock_guard lock(mutex_);
  return has_goodbye_ && inbox_.empty();
}

pollfd ControlLink::watched() const {
  const std::lock_guard lock(mutex_);
  const int reading = inbox_bytes_ < kMaxInboxBytes ? POLLIN : 0;
  const int writing = output_.empty() ? 0 : POLLOUT;
  return {is_open_ ? fd_ : -1, static_cast<short>(reading | writing), 0};
}

void ControlLink::flush() {
  const std::lock_guard lock(mutex_);
  if (output_.empty()) {
    return;
  }
  const size_t sent = send_some(output_);
  output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(sent));
}

// `receive` finds out whether a peer that takes no more is lost or has departed. But the system tells an error
// once, to whoever asks first; after that a connection that timed out looks like one that the peer has closed.
size_t ControlLink::send_some(ByteSpan bytes) {
  const Moved moved = try_send(fd_, tls_.get(), bytes);
  if (moved.is_lost && moved.error != EPIPE && send_error_ == 0) {
    send_error_ = moved.error;
  }
  return moved.bytes;
}

ControlLink::Received ControlLink::receive(MutableByteSpan scratch) {
  Received received;
  Frame frame;
  bool is_more = true;
  // The rest of a record that TLS has opened makes no socket readable: it is read in any case.
  const auto has_rest = [this] { return tls_ != nullptr && tls_->has_buffered(); };
  for (int i = 0; is_more && (i < kReadsPerTurn || has_rest()); ++i) {
    const Moved moved = try_receive(fd_, tls_.get(), scratch);
    received.is_lost = moved.is_lost;
    received.error = moved.error;
    if (moved.bytes > 0) {
      heard_ns_.store(now_ns(), std::memory_order_relaxed);
    }
    decoder_.feed(scratch.first(moved.bytes));
    auto outcome = FrameDecoder::Outcome::kIncomplete;
    while ((outcome = decoder_.next(frame)) == FrameDecoder::Outcome::kFrame) {
      received.frames.push_back(std::exchange(frame, {}));
    }
    received.is_broken = outcome == FrameDecoder::Outcome::kBroken;
    is_more = moved.bytes == scratch.size() && !received.is_broken;
  }
  if (received.is_lost && received.error == 0) {
    const std::lock_guard lock(mutex_);
    received.error = send_error_;
  }
  return received;
}

void ControlLink::deliver(Bytes message) {
  const std::lock_guard lock(mutex_);
  inbox_bytes_ += message.size();
  inbox_.push_back(std::move(message));
}

void ControlLink::set_goodbye() {
  const std::lock_guard lock(mutex_);
  has_goodbye_ = true;
}

bool ControlLink::has_goodbye() const {
  const std::lock_guard lock(mutex_);
  return has_goodbye_;
}

void ControlLink::end() {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  output_.clear();
}

void ControlLink::close() {
  end();
  abandon();
}

void ControlLink::abandon() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

}  // namespace ringtune
