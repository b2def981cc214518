// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/peer_watch.h"

#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptors.h"

namespace ringtune {

namespace {

// Poll interval where the process had no descriptor left for the event that ends the thread.
constexpr int kLookMs = 100;

}  // namespace

PeerWatch::PeerWatch(std::vector<int> pidfds, std::function<void(int)> on_death)
    : pidfds_(std::move(pidfds)),
      on_death_(std::move(on_death)),
      stop_fd_(above_standard_streams(eventfd(0, EFD_CLOEXEC))),
      thread_([this] { run(); }) {}

PeerWatch::~PeerWatch() {
  if (thread_.joinable()) {
    is_stopping_.store(true);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof(one));
    thread_.join();
  }
  close_descriptors();
}

void PeerWatch::abandon() {
  thread_.detach();
  close_descriptors();
}

void PeerWatch::run() {
  std::vector<pollfd> polled;
  for (const int fd : pidfds_) {
    polled.push_back({fd, POLLIN, 0});  // poll() passes over negative descriptors
  }
  polled.push_back({stop_fd_, POLLIN, 0});
  while (true) {
    const int ready = poll(polled.data(), polled.size(), stop_fd_ < 0 ? kLookMs : -1);
    if (polled.back().revents != 0 || is_stopping_.load()) {
      return;
    }
    if (ready < 0) {
      continue;  // EINTR
    }
    for (size_t rank = 0; rank + 1 < polled.size(); ++rank) {
      if (polled[rank].revents != 0) {
        polled[rank].fd = -1;
        on_death_(static_cast<int>(rank));
      }
    }
  }
}

void PeerWatch::close_descriptors() {
  for (int& fd : pidfds_) {
    if (fd >= 0) {
      close(std::exchange(fd, -1));
    }
  }
  if (stop_fd_ >= 0) {
    close(std::exchange(stop_fd_, -1));
  }
}

}  // namespace ringtune
