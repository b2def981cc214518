// SPDX-License-Identifier: Apache-2.0
// A process as a daemon starts it: without standard input, output and error.
#pragma once

#include <array>

#include <fcntl.h>
#include <unistd.h>

namespace ringtune::testing {

// Closes descriptors 0 to 2 until the end of the block.
class ClosedStreams {
 public:
  ClosedStreams() {
    constexpr int kOutOfTheWay = 100;
    for (size_t stream = 0; stream < saved_.size(); ++stream) {
      saved_[stream] = fcntl(static_cast<int>(stream), F_DUPFD_CLOEXEC, kOutOfTheWay);
      close(static_cast<int>(stream));
    }
  }
  ~ClosedStreams() {
    for (size_t stream = 0; stream < saved_.size(); ++stream) {
      if (saved_[stream] >= 0) {
        dup2(saved_[stream], static_cast<int>(stream));
        close(saved_[stream]);
      }
    }
  }
  ClosedStreams(const ClosedStreams&) = delete;
  ClosedStreams& operator=(const ClosedStreams&) = delete;

  bool are_still_closed() const {
    for (size_t stream = 0; stream < saved_.size(); ++stream) {
      if (fcntl(static_cast<int>(stream), F_GETFD) >= 0) {
        return false;
      }
    }
    return true;
  }

 private:
  std::array<int, 3> saved_{};
};

}  // namespace ringtune::testing
