// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_transport.h"

#include <string>
#include <utility>

#include "transport/shm/failure_record.h"

namespace ringtune {

ShmTransport::ShmTransport(std::shared_ptr<Segment> segment, int rank, std::vector<int> pidfds, std::vector<int> pids)
    : segment_(std::move(segment)), rank_(rank), pids_(std::move(pids)), response_ring_(segment_->response_ring()) {
  for (int peer = 0; peer < segment_->world_size(); ++peer) {
    request_rings_.push_back(segment_->request_ring(peer));
  }
  if (!pidfds.empty()) {
    peer_watch_.emplace(std::move(pidfds), [this](int peer_rank) { on_peer_death(peer_rank); });
  }
}

bool ShmTransport::try_send_request(ByteSpan frame) {
  if (!request_rings_[rank_].try_write(frame)) {
    return false;
  }
  segment_->block(kCoordinator).doorbell.ring();
  return true;
}

bool ShmTransport::try_receive_request(int from_rank, Bytes& frame) {
  return request_rings_[from_rank].try_read(0, frame);
}

bool ShmTransport::try_publish_response(ByteSpan frame) {
  if (!response_ring_.try_write(frame)) {
    return false;
  }
  for (int peer = 0; peer < world_size(); ++peer) {
    segment_->block(peer).doorbell.ring();
  }
  return true;
}

bool ShmTransport::try_receive_response(Bytes& frame) { return response_ring_.try_read(rank_, frame); }

uint32_t ShmTransport::announce_wait() { return segment_->block(rank_).doorbell.announce(); }
void ShmTransport::cancel_wait() { segment_->block(rank_).doorbell.cancel(); }
void ShmTransport::wait(uint32_t ticket, int64_t timeout_ns) {
  segment_->block(rank_).doorbell.sleep(ticket, timeout_ns);
}
void ShmTransport::notify() { segment_->block(rank_).doorbell.ring(); }

void ShmTransport::fail(const Failure& failure) { record_failure(*segment_, failure); }
std::optional<Failure> ShmTransport::failure() const { return read_failure(*segment_); }

void ShmTransport::depart() {
  peer_watch_.reset();
  segment_->block(rank_).has_departed.store(1);
  for (int peer = 0; peer < world_size(); ++peer) {
    segment_->block(peer).doorbell.ring();
  }
}

bool ShmTransport::has_departed(int peer_rank) const { return segment_->block(peer_rank).has_departed.load() != 0; }

void ShmTransport::abandon_after_fork() {
  if (peer_watch_) {
    peer_watch_->abandon();
  }
}

void ShmTransport::on_peer_death(int peer_rank) {
  if (has_departed(peer_rank)) {
    return;
  }
  const std::string pid = static_cast<size_t>(peer_rank) < pids_.size()
                              ? " (pid " + std::to_string(pids_[static_cast<size_t>(peer_rank)]) + ")"
                              : "";
  fail({StatusCode::kPeerLostError, peer_rank,
        "rank " + std::to_string(peer_rank) + pid + " died without leaving the job (noticed by rank " +
            std::to_string(rank_) + "); see its output for the cause. Only shutdown() is usable now"});
}

}  // namespace ringtune
