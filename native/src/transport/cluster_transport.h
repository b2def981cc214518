// SPDX-License-Identifier: Apache-2.0
// The control plane of a world: the rings of the shared-memory segment inside a host, control sockets between hosts.
//
// Messages between hosts are those of rank 0 and the hosts' leaders. Every rank of another host has a control socket to
// rank 0 all the same: silence, departure and failure are seen of each. The first failure that a host comes to know is
// kept in its segment, and goes over the control sockets to rank 0 and from there to every other host.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/interruption.h"
#include "transport/layout.h"
#include "transport/shm/peer_watch.h"
#include "transport/shm/segment.h"
#include "transport/tcp/control_links.h"
#include "transport/tcp/tls/tls_session.h"
#include "transport/transport.h"

namespace ringtune {

struct TransportOptions {
  std::vector<int> pidfds;       // per world rank, -1 none; may be empty (ranks that are threads of one process)
  std::vector<int> pids;         // per world rank; may be empty
  std::vector<int> control_fds;  // per world rank, -1 none; empty in a world of one host
  int64_t timeout_ns = 0;        // silence of another host that ends a connection to it; 0: the system's limit
  TlsSessions tls = {};          // sessions of control sockets; one without carries clear text
};

class ClusterTransport final : public Transport {
 public:
  // Takes all descriptors over. The segment is that of the rank's host.
  ClusterTransport(std::shared_ptr<Segment> segment, const Layout& layout, TransportOptions options);

  int rank() const override { return layout_.rank(); }
  int world_size() const override { return layout_.world_size(); }
  int leader() const override { return layout_.leader(); }

  bool try_send_request(ByteSpan frame) override;
  bool try_receive_response(Bytes& frame) override;
  bool try_receive_request(int from_rank, Bytes& frame) override;
  bool try_publish_response(ByteSpan frame) override;
  bool try_forward_request(ByteSpan frame) override;
  bool try_receive_published(Bytes& frame) override { return links_->try_receive(kCoordinator, frame); }
  void pass_on_departure() override;
  bool try_receive_forwarded(int from_leader, Bytes& frame) override { return links_->try_receive(from_leader, frame); }
  size_t max_frame_bytes() const override { return kRequestRingBytes / 2; }

  uint32_t announce_wait(Sleeper sleeper) override { return doorbell().announce(sleeper); }
  void cancel_wait(Sleeper sleeper) override { doorbell().cancel(sleeper); }
  void wait(Sleeper sleeper, uint32_t ticket, int64_t timeout_ns) override {
    doorbell().sleep(sleeper, ticket, timeout_ns);
  }
  void awaken(Sleeper sleeper) override { doorbell().awaken(sleeper); }
  void notify() override { doorbell().ring(); }

  void fail(const Failure& failure) override;
  std::optional<Failure> failure() const override;

  int silent_rank() const override { return links_ == nullptr ? kNoCulprit : links_->silent_rank(); }
  int64_t round_trip_ns() const override { return links_ == nullptr ? 0 : links_->round_trip_ns(); }
  std::string describe_way(int rank) const override { return links_ == nullptr ? "" : links_->describe_way(rank); }
  // See ControlLinks; no effect in a world of one host. Any thread.
  void set_beacon(uint8_t beacon);
  uint8_t beacon_of(int rank) const { return links_ == nullptr ? 0 : links_->beacon_of(rank); }

  bool is_interrupted(int64_t waiting_since_ns) override { return interruption_.is_due(waiting_since_ns); }
  Interruption& interruption() { return interruption_; }

  void depart() override;
  // Knows of the ranks of this host; of other hosts, on rank 0 all ranks, elsewhere rank 0: a leader once it has
  // received all earlier messages of rank 0, the others once their leader has passed that on.
  bool has_departed(int peer_rank) const override;

  // In a forked child: closes descriptors and touches the shared memory, which is not mapped there, no more.
  void abandon_after_fork();

 private:
  Doorbell& doorbell() { return segment_->block(layout_.local_rank()).doorbell; }
  void seal_arenas();
  void ring_neighbours();
  void on_peer_death(int peer_rank);

  std::shared_ptr<Segment> segment_;
  const Layout layout_;
  const std::vector<int> pids_;
  Interruption interruption_;
  ByteRing response_ring_;
  std::vector<ByteRing> request_rings_;  // one per local rank
  std::unique_ptr<ControlLinks> links_;  // null in a world of one host
  std::optional<PeerWatch> peer_watch_;
};

}  // namespace ringtune
