// SPDX-License-Identifier: Apache-2.0
#include "transport/cluster_transport.h"

#include <string>
#include <utility>

#include "transport/peer_name.h"
#include "transport/shm/failure_record.h"

namespace ringtune {

ClusterTransport::ClusterTransport(std::shared_ptr<Segment> segment, const Layout& layout, TransportOptions options)
    : segment_(std::move(segment)),
      layout_(layout),
      pids_(std::move(options.pids)),
      response_ring_(segment_->response_ring()) {
  for (int local_rank = 0; local_rank < segment_->local_size(); ++local_rank) {
    request_rings_.push_back(segment_->request_ring(local_rank));
  }
  if (layout_.host_count() > 1) {
    links_ =
        std::make_unique<ControlLinks>(*this, layout_, pids_, options.control_fds, options.timeout_ns, options.tls);
    links_->start();
  }
  if (!options.pidfds.empty()) {
    peer_watch_.emplace(std::move(options.pidfds), [this](int peer_rank) { on_peer_death(peer_rank); });
  }
}

bool ClusterTransport::try_send_request(ByteSpan frame) {
  if (!request_rings_[static_cast<size_t>(layout_.local_rank())].try_write(frame)) {
    return false;
  }
  segment_->block(layout_.local_rank_of(layout_.leader())).doorbell.ring();
  return true;
}

bool ClusterTransport::try_receive_response(Bytes& frame) {
  return response_ring_.try_read(layout_.local_rank(), frame);
}

bool ClusterTransport::try_receive_request(int from_rank, Bytes& frame) {
  return request_rings_[static_cast<size_t>(layout_.local_rank_of(from_rank))].try_read(0, frame);
}

bool ClusterTransport::try_publish_response(ByteSpan frame) {
  const bool is_for_all_hosts = rank() == kCoordinator && links_ != nullptr;
  // This thread alone adds to either: room that is there now stays until the frame is in.
  if (is_for_all_hosts && !links_->has_room(frame)) {
    return false;
  }
  if (!response_ring_.try_write(frame)) {
    return false;
  }
  if (is_for_all_hosts) {
    links_->send(FrameType::kResponse, frame);
  }
  ring_neighbours();
  return true;
}

bool ClusterTransport::try_forward_request(ByteSpan frame) {
  const bool has_room = links_->has_room(frame);
  if (has_room) {
    links_->send(FrameType::kRequest, frame);
  }
  return has_room;
}

void ClusterTransport::pass_on_departure() {
  if (segment_->header().has_coordinator_departed.exchange(1) == 0) {
    ring_neighbours();
  }
}

void ClusterTransport::fail(const Failure& failure) {
  record_failure(*segment_, failure);
  [[maybe_unused]] const std::optional<Failure> forwarded = this->failure();
}

std::optional<Failure> ClusterTransport::failure() const {
  std::optional<Failure> first = read_failure(*segment_);
  if (first && links_ != nullptr) {
    // Whoever looks first tells the other hosts: a neighbour may have recorded it without means to do so.
    links_->forward(*first);
  }
  return first;
}

void ClusterTransport::set_beacon(uint8_t beacon) {
  if (links_ != nullptr) {
    links_->set_beacon(beacon);
  }
}

void ClusterTransport::depart() {
  seal_arenas();
  peer_watch_.reset();
  segment_->block(layout_.local_rank()).has_departed.store(1);
  ring_neighbours();
  if (links_ != nullptr) {
    links_->depart();
  }
}

bool ClusterTransport::has_departed(int peer_rank) const {
  if (!layout_.is_local(peer_rank)) {
    const bool is_told_by_leader = peer_rank == kCoordinator && !layout_.is_leader();
    return is_told_by_leader ? segment_->header().has_coordinator_departed.load() != 0
                             : links_->has_departed(peer_rank);
  }
  return segment_->block(layout_.local_rank_of(peer_rank)).has_departed.load() != 0;
}

void ClusterTransport::abandon_after_fork() {
  seal_arenas();
  if (links_ != nullptr) {
    links_->abandon_after_fork();
  }
  if (peer_watch_) {
    peer_watch_->abandon();
  }
}

void ClusterTransport::seal_arenas() {
  if (segment_->arenas() != nullptr) {
    segment_->arenas()->seal();
  }
}

void ClusterTransport::ring_neighbours() {
  for (int local_rank = 0; local_rank < segment_->local_size(); ++local_rank) {
    segment_->block(local_rank).doorbell.ring();
  }
}

void ClusterTransport::on_peer_death(int peer_rank) {
  if (has_departed(peer_rank)) {
    return;
  }
  fail({StatusCode::kPeerLostError, peer_rank,
        peer_name(layout_, pids_, peer_rank) + " died without leaving the job (noticed by rank " +
            std::to_string(rank()) + "); see its output for the cause. Only shutdown() is usable now"});
}

}  // namespace ringtune
