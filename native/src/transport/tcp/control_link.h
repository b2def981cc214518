// SPDX-License-Identifier: Apache-2.0
// One control socket: frames go out through a bounded queue, messages come in through another.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <poll.h>

#include "base/bytes.h"
#include "transport/tcp/frame_stream.h"
#include "transport/tcp/round_trip.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tls/tls_session.h"

namespace ringtune {

// Limit of output for a peer that reads slowly: as much as the ring of responses holds.
inline constexpr size_t kMaxOutputBytes = 4 << 20;
// Limit of input that waits for this rank's communication thread, before the socket is left unread.
inline constexpr size_t kMaxInboxBytes = 64 << 20;

class ControlLink {
 public:
  // Takes the descriptor over. It stays open until `close` or the destruction, so that a forked child knows it.
  ControlLink(int peer_rank, int fd, int64_t timeout_ns, std::shared_ptr<TlsSession> tls = nullptr);
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  int peer_rank() const { return peer_rank_; }
  // When the peer last sent anything. Any thread.
  int64_t heard_ns() const { return heard_ns_.load(std::memory_order_relaxed); }

  // The peer's newest beacon, 0 before the first. Any thread.
  uint8_t beacon() const { return beacon_.load(std::memory_order_relaxed); }
  void set_beacon(uint8_t beacon) { beacon_.store(beacon, std::memory_order_relaxed); }

  // Any thread. A link that is lost takes everything and forgets it: its end is reported elsewhere.
  bool has_room(size_t payload_bytes) const;
  // Beyond the bound too, which is for `has_room` to keep. True if something is left for `flush`.
  bool send(ByteSpan frame);
  // True if the peer's kernel has confirmed all that was sent.
  bool is_flushed() const;

  // The communication thread.
  bool take_message(Bytes& message);
  // The peer has sent its departure, and all earlier messages are received.
  bool has_departed() const;
  // See round_trip.h.
  int64_t round_trip_ns() const { return ringtune::round_trip_ns(fd_); }
  // This host's end; see socket.h.
  std::string describe_own_end() const { return ringtune::describe_own_end(fd_); }

  // The link thread.
  struct Received {
    std::vector<Frame> frames;
    bool is_broken = false;  // after these frames comes something that is none
    bool is_lost = false;
    int error = 0;  // reason, even if a send has learned of it
  };
  pollfd watched() const;
  void flush();
  Received receive(MutableByteSpan scratch);
  void deliver(Bytes message);
  void set_goodbye();
  bool has_goodbye() const;
  // Ends sending and receiving.
  void end();

  // Once the link thread has ended.
  void close();
  // In a forked child, where a thread that is not there may hold the lock.
  void abandon();

 private:
  // Sends the bytes that the socket takes now, and returns their number; under the lock.
  size_t send_some(ByteSpan bytes);

  const int peer_rank_;
  int fd_;
  const std::shared_ptr<TlsSession> tls_;  // null: clear text
  FrameDecoder decoder_;
  std::atomic<int64_t> heard_ns_;
  std::atomic<uint8_t> beacon_{0};

  // Guards the members below. Held over system calls that do not block; the TLS session's own lock alone is taken under
  // it.
  mutable std::mutex mutex_;
  Bytes output_;
  int send_error_ = 0;
  std::deque<Bytes> inbox_;
  size_t inbox_bytes_ = 0;
  bool has_goodbye_ = false;
  bool is_open_ = true;
};

}  // namespace ringtune
