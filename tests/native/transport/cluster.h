// SPDX-License-Identifier: Apache-2.0
// The transports of a world of several hosts in one process: a segment per host, a transport per rank.
#pragma once

#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "socket_mesh.h"
#include "transport/cluster_transport.h"

namespace ringtune::testing {

inline constexpr int64_t kPatienceNs = 20 * kNsPerS;
// A pid that no message can contain by chance.
inline constexpr int kFirstPid = 770000;

inline std::shared_ptr<Segment> host_segment(int local_size) {
  int fd = -1;
  std::shared_ptr<Segment> segment;
  EXPECT_TRUE(Segment::create(local_size, fd).ok());
  EXPECT_TRUE(Segment::map(fd, local_size, segment).ok());
  close(fd);
  return segment;
}

inline Bytes bytes_of(size_t size, int seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<size_t>(seed) * 17);
  }
  return bytes;
}

inline size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries))) - 1;  // less the listing's own
}

// Expects of a world of links that it closes all of its descriptors, and those that a forked child has of it.
template <typename World, typename... Arguments>
void expect_no_descriptor_left(int world_size, Arguments... arguments) {
  const size_t before = open_descriptors();
  {
    World world(world_size, arguments...);
    const pid_t child = fork();
    if (child == 0) {
      for (int rank = 0; rank < world_size; ++rank) {
        world.links(rank).abandon_after_fork();
        world.cluster().transport(rank).abandon_after_fork();
      }
      _exit(open_descriptors() == before ? 0 : 1);
    }
    int outcome = 0;
    waitpid(child, &outcome, 0);
    EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << outcome;
  }
  EXPECT_EQ(before, open_descriptors());
}

// Returns whether `condition` becomes true; looks again and again, as a communication thread does.
template <typename Condition>
bool eventually(Condition condition, int64_t patience_ns = kPatienceNs) {
  const int64_t limit_ns = now_ns() + patience_ns;
  while (!condition()) {
    if (now_ns() > limit_ns) {
      return false;
    }
    usleep(500);
  }
  return true;
}

class Cluster {
 public:
  // `raw_rank`: a rank without a transport, whose end of the control socket is the test's to abuse.
  // `lanes` as in SocketMesh.
  explicit Cluster(const std::vector<int>& hosts, SocketKind kind = SocketKind::kSocketPair, int raw_rank = -1,
                   size_t lanes = 0)
      : hosts_(hosts), layout_(0, hosts), mesh_(hosts, kind, lanes) {
    for (int host = 0; host < layout_.host_count(); ++host) {
      segments_.push_back(host_segment(static_cast<int>(layout_.ranks_of(host).size())));
    }
    std::vector<int> pids;
    for (int rank = 0; rank < world_size(); ++rank) {
      pids.push_back(kFirstPid + rank);
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      const std::vector<int> control_fds = mesh_.control_fds(rank);
      if (rank == raw_rank) {
        raw_fd_ = control_fds[0];
      }
      transports_.push_back(
          rank == raw_rank ? nullptr
                           : std::make_unique<ClusterTransport>(segment_of(rank), Layout(rank, hosts),
                                                                TransportOptions{{}, pids, control_fds, 30 * kNsPerS}));
    }
  }
  ~Cluster() { close_raw(); }

  Layout layout(int rank) const { return {rank, hosts_}; }
  int world_size() const { return layout_.world_size(); }
  ClusterTransport& transport(int rank) { return *transports_[static_cast<size_t>(rank)]; }
  void destroy(int rank) { transports_[static_cast<size_t>(rank)].reset(); }
  std::shared_ptr<Segment> segment_of(int rank) { return segments_[static_cast<size_t>(layout_.host_of(rank))]; }
  SocketMesh& mesh() { return mesh_; }

  int raw_fd() const { return raw_fd_; }
  int release_raw() { return std::exchange(raw_fd_, -1); }
  void close_raw() {
    if (raw_fd_ >= 0) {
      close(std::exchange(raw_fd_, -1));
    }
  }

  // The failure that every rank reports once all know of one; empty if some do not within two seconds.
  std::vector<Failure> failures() {
    std::vector<Failure> known;
    const int64_t limit_ns = now_ns() + 2 * kNsPerS;
    for (const auto& transport : transports_) {
      std::optional<Failure> failure;
      if (transport != nullptr &&
          eventually([&] { return (failure = transport->failure()).has_value(); }, limit_ns - now_ns())) {
        known.push_back(*failure);
      }
    }
    return known;
  }

 private:
  std::vector<int> hosts_;
  Layout layout_;
  SocketMesh mesh_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<std::unique_ptr<ClusterTransport>> transports_;
  int raw_fd_ = -1;
};

}  // namespace ringtune::testing
