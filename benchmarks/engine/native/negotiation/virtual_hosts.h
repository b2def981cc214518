// SPDX-License-Identifier: Apache-2.0
// Transports in memory: rank 0's and the leaders' sides of a world whose other ranks are frames. Counts the bytes that
// would reach and leave rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/layout.h"
#include "transport/transport.h"

namespace ringtune::benchmarks {

struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;

  void add(const Bytes& frame) {
    ++messages;
    bytes += frame.size();
  }
};

// Transport of one host, on the side of its leader.
class VirtualHost final : public Transport {
 public:
  VirtualHost(int leader, const std::vector<int>& hosts)
      : layout_(leader, hosts), next_(static_cast<size_t>(layout_.local_size())) {}

  // Every rank of the host sends these frames.
  void submit(const std::vector<Bytes>& frames) {
    frames_ = &frames;
    next_.assign(next_.size(), 0);
  }
  // Rank 0's: the other hosts, by their numbers; the first is null.
  void connect(std::vector<VirtualHost*> hosts) { hosts_ = std::move(hosts); }

  const Layout& layout() const { return layout_; }
  // At rank 0, its own host's included: one message for each rank of that, and one for each other host.
  const Traffic& in() const { return in_; }
  const Traffic& out() const { return out_; }

  int rank() const override { return layout_.rank(); }
  int world_size() const override { return layout_.world_size(); }
  int leader() const override { return layout_.leader(); }

  bool try_send_request(ByteSpan) override { return false; }
  bool try_receive_response(Bytes&) override { return false; }
  bool try_receive_request(int from_rank, Bytes& frame) override {
    size_t& next = next_[static_cast<size_t>(layout_.local_rank_of(from_rank))];
    if (next == frames_->size()) {
      return false;
    }
    frame = (*frames_)[next++];
    in_.add(frame);
    return true;
  }
  bool try_publish_response(ByteSpan frame) override {
    const Bytes response(frame.begin(), frame.end());
    for (int local_rank = 0; local_rank < layout_.local_size(); ++local_rank) {
      out_.add(response);
    }
    for (size_t host = 1; host < hosts_.size(); ++host) {
      hosts_[host]->published_.push_back(response);
      out_.add(response);
    }
    return true;
  }
  bool try_forward_request(ByteSpan frame) override {
    forwarded_.emplace_back(frame.begin(), frame.end());
    return true;
  }
  bool try_receive_published(Bytes& frame) override { return take(published_, frame); }
  void pass_on_departure() override {}
  bool try_receive_forwarded(int from_leader, Bytes& frame) override {
    const bool is_there = take(hosts_[static_cast<size_t>(layout_.host_of(from_leader))]->forwarded_, frame);
    if (is_there) {
      in_.add(frame);
    }
    return is_there;
  }
  size_t max_frame_bytes() const override { return 512 << 10; }

  uint32_t announce_wait(Sleeper) override { return 0; }
  void cancel_wait(Sleeper) override {}
  void wait(Sleeper, uint32_t, int64_t) override {}
  void awaken(Sleeper) override {}
  void notify() override {}

  void fail(const Failure& failure) override { failure_ = failure; }
  std::optional<Failure> failure() const override { return failure_; }
  void depart() override {}
  bool has_departed(int) const override { return false; }

 private:
  static bool take(std::deque<Bytes>& queue, Bytes& frame) {
    if (queue.empty()) {
      return false;
    }
    frame = std::move(queue.front());
    queue.pop_front();
    return true;
  }

  Layout layout_;
  const std::vector<Bytes>* frames_ = nullptr;
  std::vector<size_t> next_;  // next frame of frames_, by local rank
  std::vector<VirtualHost*> hosts_;
  std::deque<Bytes> forwarded_;
  std::deque<Bytes> published_;
  Traffic in_;
  Traffic out_;
  std::optional<Failure> failure_;
};

}  // namespace ringtune::benchmarks
