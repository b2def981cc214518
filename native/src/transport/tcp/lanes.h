// SPDX-License-Identifier: Apache-2.0
// Several connections to one peer, its *lanes*, that carry the chunks of its messages side by side.
//
// A lane takes the next chunk of the oldest message when its socket takes bytes and it has a share in the rest of the
// message (`lane_shares`), so that lanes of unlike speed are through with it at one time. A header says where a chunk
// lands, and each lane keeps its own order: the oldest byte that is still to come is always the next of some lane, and
// no lane waits for another for ever.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <poll.h>

#include "base/bytes.h"
#include "transport/tcp/chunk_header.h"
#include "transport/tcp/lane_shares.h"
#include "transport/tcp/tls/tls_session.h"

namespace ringtune {

// Outcome of one turn of all lanes.
struct LaneTurn {
  size_t bytes = 0;        // moved, headers included
  int lost_lane = -1;      // number of a lane that is lost
  int error = 0;           // see Moved
  bool is_broken = false;  // `lost_lane` is none the less there: the peer has sent a header that makes no sense
};

// The outgoing half.
class SendingLanes {
 public:
  // Descriptors and sessions stay the caller's. `sent_bytes` has a count for each lane, without headers.
  SendingLanes(const std::vector<int>& fds, std::span<std::atomic<uint64_t>> sent_bytes, const TlsSessions& tls = {});

  // Lanes that take chunks from now on, at least one. Only while no message is pending.
  void use(size_t lanes) { used_ = lanes; }
  // `done_bytes` grows as the system takes the message's; both must live until it has its size, or until `give_up`.
  void push(ByteSpan message, size_t& done_bytes);
  bool is_idle() const { return pending_ == 0; }
  LaneTurn turn();
  void add_awaited(std::vector<pollfd>& polled) const;
  void give_up();

 private:
  struct Message {
    uint32_t number;
    ByteSpan rest;  // bytes that no lane has
    uint64_t offset;
    size_t* done_bytes;
  };
  struct Lane {
    int fd;
    TlsSession* tls;    // null for clear text
    Bytes header = {};  // bytes of it that are not sent
    ByteSpan payload = {};
    size_t* done_bytes = nullptr;
    double s_per_byte = 0;  // mean over the latest looks; 0 where it is not known
    bool has_share = true;  // in the message that is next, as far as is known

    bool is_busy() const { return !header.empty() || !payload.empty(); }
  };

  void look_for_room();
  // The lane's load, its rate as a mean.
  LaneLoad look_at(Lane& lane, double weight) const;
  void trust_limited(double weight);
  bool has_room(size_t number) const { return (room_[number].revents & ~POLLNVAL) != 0; }
  void load(size_t number);
  void send_some(size_t number, LaneTurn& turn);

  std::vector<Lane> lanes_;
  std::span<std::atomic<uint64_t>> sent_bytes_;
  size_t used_;
  uint32_t next_number_ = 0;
  std::deque<Message> messages_;
  size_t pending_ = 0;  // bytes of all messages that the system has not taken
  std::vector<pollfd> room_;
  std::vector<LaneLoad> loads_;
  int64_t looked_ns_ = 0;
};

// The incoming half.
class ReceivingLanes {
 public:
  explicit ReceivingLanes(const std::vector<int>& fds, const TlsSessions& tls = {});

  void use(size_t lanes) { used_ = lanes; }
  // Arguments live as long as in `SendingLanes::push`.
  void push(MutableByteSpan message, size_t& done_bytes);
  bool is_idle() const { return messages_.empty(); }
  LaneTurn turn();
  void add_awaited(std::vector<pollfd>& polled) const;
  void give_up();

 private:
  struct Message {
    MutableByteSpan bytes;
    size_t announced_bytes;  // sum over the headers of its chunks
    size_t* done_bytes;
  };
  struct Lane {
    int fd;
    TlsSession* tls;         // null for clear text
    Bytes header = {};       // bytes of it that have arrived
    bool is_parked = false;  // its chunk is of a message that this rank has not begun
    bool has_ended = false;  // the peer has closed it, between two chunks: it may have sent all that was to come
    MutableByteSpan target = {};
    size_t* done_bytes = nullptr;
  };

  // False for a chunk that is none of a message.
  bool place(Lane& lane);
  bool have_all_ended() const;
  void drop_done();
  void receive_some(size_t number, LaneTurn& turn);
  // True if the lane's next chunk has a place now.
  bool receive_header(size_t number, LaneTurn& turn);

  std::vector<Lane> lanes_;
  size_t used_;
  uint32_t first_number_ = 0;
  std::deque<Message> messages_;
};

}  // namespace ringtune
