// SPDX-License-Identifier: Apache-2.0
// Notices the death of a peer within milliseconds and at no cost: a thread that sleeps in poll() on the peers' pidfds.
//
// A pidfd tells of the process itself. Children that the peer forked (data loaders) and that hold copies of its
// descriptors do not hide its death, as they would that of a socket's owner.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace ringtune {

class PeerWatch {
 public:
  // Takes over the descriptors; -1 for a peer that is not watched. `on_death(rank)` runs in the watching thread.
  PeerWatch(std::vector<int> pidfds, std::function<void(int)> on_death);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // In a forked child: closes the descriptors; there is no thread to end.
  void abandon();

 private:
  void run();
  void close_descriptors();

  std::vector<int> pidfds_;
  std::function<void(int)> on_death_;
  int stop_fd_;  // -1 where the process had no descriptor left
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace ringtune
