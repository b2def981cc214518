// SPDX-License-Identifier: Apache-2.0
// A transport in memory: rank 0's side of a world whose other ranks are frames. Counts what would travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace ringtune::benchmarks {

class VirtualRanks final : public Transport {
 public:
  struct Traffic {
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };

  explicit VirtualRanks(int world_size) : world_size_(world_size), next_(static_cast<size_t>(world_size)) {}

  // Every rank sends these frames.
  void submit(std::vector<Bytes> frames) {
    frames_ = std::move(frames);
    next_.assign(next_.size(), 0);
  }
  // What the ranks have got since the last call.
  std::vector<Bytes> take_responses() { return std::exchange(responses_, {}); }
  Traffic requests() const { return requests_; }

  int rank() const override { return kCoordinator; }
  int world_size() const override { return world_size_; }

  bool try_send_request(ByteSpan) override { return false; }
  bool try_receive_request(int from_rank, Bytes& frame) override {
    size_t& next = next_[static_cast<size_t>(from_rank)];
    if (next == frames_.size()) {
      return false;
    }
    frame = frames_[next++];
    ++requests_.messages;
    requests_.bytes += frame.size();
    return true;
  }
  bool try_publish_response(ByteSpan frame) override {
    responses_.emplace_back(frame.begin(), frame.end());
    return true;
  }
  bool try_receive_response(Bytes&) override { return false; }
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
  int world_size_;
  std::vector<Bytes> frames_;
  std::vector<size_t> next_;  // by rank, of frames_
  std::vector<Bytes> responses_;
  Traffic requests_;
  std::optional<Failure> failure_;
};

}  // namespace ringtune::benchmarks
