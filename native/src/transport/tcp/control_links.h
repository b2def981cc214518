// SPDX-License-Identifier: Apache-2.0
// The control sockets of one rank and the thread that serves them, also while the communication thread executes a
// collective: on rank 0 one socket to every rank of another host, on such a rank the one to rank 0. Requests and
// responses travel between rank 0 and the leaders of hosts; heartbeats, failures and goodbyes on every socket.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/layout.h"
#include "transport/tcp/control_link.h"
#include "transport/transport.h"

namespace ringtune {

class ControlLinks {
 public:
  // Takes the descriptors over (by world rank, -1 for none; may be empty). A lost or senseless peer becomes
  // `transport.fail`; an arriving message rings `transport.notify`. `timeout_ns`: see `adopt_socket`.
  ControlLinks(Transport& transport, const Layout& layout, std::vector<int> pids, const std::vector<int>& fds,
               int64_t timeout_ns, const TlsSessions& tls = {});
  ~ControlLinks();
  ControlLinks(const ControlLinks&) = delete;
  ControlLinks& operator=(const ControlLinks&) = delete;

  // Not in the constructor: the thread uses the transport, which is being made then. Without sockets there is none.
  void start();

  // The communication thread, of rank 0 or a leader. `send`, which goes to every link for messages, takes a payload
  // that has room on all of them.
  bool has_room(ByteSpan payload) const;
  void send(FrameType type, ByteSpan payload) { send_to(for_messages_, encode_frame(type, payload)); }
  bool try_receive(int from_rank, Bytes& message);
  bool has_departed(int peer_rank) const;
  // The peer that has been silent for longest, if that is as long as a living one never is; else kNoCulprit. Any
  // thread.
  int silent_rank() const;
  // See Transport. The communication thread.
  int64_t round_trip_ns() const;
  std::string describe_way(int rank) const;

  // A number that this rank shows in its heartbeats: on rank 0 to the ranks of other hosts, elsewhere to rank 0, which
  // see it within a second or two. Any thread.
  void set_beacon(uint8_t beacon) { beacon_.store(beacon, std::memory_order_relaxed); }
  // The beacon of a rank that has a link to this one, 0 for others. Any thread.
  uint8_t beacon_of(int rank) const;

  // Tells the other hosts of the world's failure, once. Any thread.
  void forward(const Failure& failure);

  // Sends the queued messages and a departure, and closes; gives a peer that does not read a bounded time.
  void depart();
  // In a forked child: closes the descriptors; there is no thread to end.
  void abandon_after_fork();

 private:
  void run();
  void beat();
  void serve(ControlLink& link, short events);
  // False for a frame that this peer may not send.
  bool handle(ControlLink& link, Frame& frame);
  bool take_abort(ByteSpan payload);
  void lose(ControlLink& link, const std::string& how);
  void send_to(const std::vector<ControlLink*>& links, ByteSpan frame);
  void send_to_all(FrameType type, ByteSpan payload) { send_to(all_, encode_frame(type, payload)); }
  bool carries_messages(int peer_rank) const;
  bool is_flushed() const;
  void wake();
  void stop();
  ControlLink* link_of(int rank) const { return by_rank_[static_cast<size_t>(rank)]; }

  Transport& transport_;
  const Layout layout_;
  const std::vector<int> pids_;
  std::vector<std::unique_ptr<ControlLink>> links_;
  std::vector<ControlLink*> by_rank_;
  std::vector<ControlLink*> all_;
  std::vector<ControlLink*> for_messages_;
  Bytes scratch_;  // for the link thread alone
  int wake_fd_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_departing_{false};
  std::atomic<bool> has_forwarded_{false};
  std::atomic<uint8_t> beacon_{0};
  int64_t next_beat_ns_ = 0;  // for the link thread alone
  std::thread thread_;
};

}  // namespace ringtune
