// SPDX-License-Identifier: Apache-2.0
// The transport between ranks of one host.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/shm/peer_watch.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace ringtune {

class ShmTransport final : public Transport {
 public:
  // `pidfds` may be empty: ranks that are threads of one process do not watch each other.
  ShmTransport(std::shared_ptr<Segment> segment, int rank, std::vector<int> pidfds, std::vector<int> pids);

  int rank() const override { return rank_; }
  int world_size() const override { return segment_->world_size(); }

  bool try_send_request(ByteSpan frame) override;
  bool try_receive_request(int from_rank, Bytes& frame) override;
  bool try_publish_response(ByteSpan frame) override;
  bool try_receive_response(Bytes& frame) override;
  size_t max_frame_bytes() const override { return kRequestRingBytes / 2; }

  uint32_t announce_wait() override;
  void cancel_wait() override;
  void wait(uint32_t ticket, int64_t timeout_ns) override;
  void notify() override;

  void fail(const Failure& failure) override;
  std::optional<Failure> failure() const override;

  void depart() override;
  bool has_departed(int peer_rank) const override;

  // In a forked child: closes descriptors and touches the shared memory, which is not mapped there, no more.
  void abandon_after_fork();

 private:
  void on_peer_death(int peer_rank);

  std::shared_ptr<Segment> segment_;
  int rank_;
  std::vector<int> pids_;
  ByteRing response_ring_;
  std::vector<ByteRing> request_rings_;
  std::optional<PeerWatch> peer_watch_;
};

}  // namespace ringtune
