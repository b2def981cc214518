// SPDX-License-Identifier: Apache-2.0
// A world of threads that call collectives directly: a segment per host, and TCP links where there are several hosts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectives/collective_context.h"
#include "socket_mesh.h"
#include "transport/cluster_transport.h"
#include "transport/tcp/tcp_links.h"

namespace ringtune::testing {

using Hosts = std::vector<int>;

inline constexpr size_t kSmallChunk = 16 * 1024;  // bytes; tensors of a test are cut into many

// One host of 1 ... 8 ranks.
inline std::vector<Hosts> single_hosts() {
  std::vector<Hosts> worlds;
  for (size_t ranks = 1; ranks <= 8; ++ranks) {
    worlds.emplace_back(ranks, 0);
  }
  return worlds;
}

// 1 + 1, 2 + 2, 1 + 3, interleaved, 4 x 1, 3 x 2, 3 + 2 + 2, 7 x 1; of eight ranks 4 + 4, 4 x 2, 5 + 3, 8 x 1.
inline std::vector<Hosts> several_hosts() {
  return {{0, 1},
          {0, 0, 1, 1},
          {0, 1, 1, 1},
          {0, 1, 0, 1},
          {0, 1, 2, 3},
          {0, 0, 1, 1, 2, 2},
          {0, 0, 0, 1, 1, 2, 2},
          {0, 1, 2, 3, 4, 5, 6},
          {0, 0, 0, 0, 1, 1, 1, 1},
          {0, 0, 1, 1, 2, 2, 3, 3},
          {0, 0, 0, 0, 0, 1, 1, 1},
          {0, 1, 2, 3, 4, 5, 6, 7}};
}

inline std::vector<Hosts> all_worlds() {
  std::vector<Hosts> worlds = single_hosts();
  for (const Hosts& hosts : several_hosts()) {
    worlds.push_back(hosts);
  }
  return worlds;
}

inline std::string world_name(const Hosts& hosts) {
  std::string name = "hosts";
  for (const int host : hosts) {
    name += "_" + std::to_string(host);
  }
  return name;
}

class CollectiveWorld {
 public:
  explicit CollectiveWorld(const Hosts& hosts) {
    const Layout whole(0, hosts);
    std::vector<std::shared_ptr<Segment>> segments;
    for (int host = 0; host < whole.host_count(); ++host) {
      segments.push_back(make_segment(static_cast<int>(whole.ranks_of(host).size())));
    }
    SocketMesh mesh(hosts);
    for (int rank = 0; rank < whole.world_size(); ++rank) {
      const auto& segment = segments[static_cast<size_t>(whole.host_of(rank))];
      ranks_.push_back(std::make_unique<Rank>(Layout(rank, hosts), segment, mesh));
    }
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  // The arenas of the first host.
  const std::shared_ptr<Arenas>& arenas() const { return ranks_.front()->segment->arenas(); }

  Interruption& interruption(int rank) { return ranks_[static_cast<size_t>(rank)]->transport.interruption(); }
  // The rank leaves in good order.
  void depart(int rank) { ranks_[static_cast<size_t>(rank)]->transport.depart(); }

  // Calls `body` once per rank, each in a thread of its own.
  void run(const std::function<void(CollectiveContext&)>& body) {
    std::vector<std::thread> threads;
    for (const auto& rank : ranks_) {
      threads.emplace_back([&body, &rank] {
        CollectiveContext context{rank->layout, rank->stage, rank->links.get(), rank->segment->arenas().get()};
        body(context);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

 private:
  static constexpr int64_t kTimeoutNs = 60 * kNsPerS;

  struct Rank {
    Rank(const Layout& own, std::shared_ptr<Segment> host_segment, SocketMesh& mesh)
        : layout(own),
          segment(std::move(host_segment)),
          stage(segment, layout, kTimeoutNs, &transport),
          transport(segment, layout, TransportOptions{{}, {}, mesh.control_fds(own.rank()), kTimeoutNs}) {
      if (own.host_count() > 1) {
        links =
            std::make_unique<TcpLinks>(transport, layout, std::vector<int>{}, mesh.data_fds(own.rank()), kTimeoutNs);
      }
    }
    ~Rank() { transport.depart(); }

    Layout layout;
    std::shared_ptr<Segment> segment;
    Stage stage;
    ClusterTransport transport;
    std::unique_ptr<Links> links;
  };

  static std::shared_ptr<Segment> make_segment(int local_size) {
    int fd = -1;
    std::shared_ptr<Segment> segment;
    EXPECT_TRUE(Segment::create(local_size, fd).ok());
    EXPECT_TRUE(Segment::map(fd, local_size, segment).ok());
    close(fd);
    return segment;
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

// A test for every world.
class EveryWorld : public ::testing::TestWithParam<Hosts> {
 protected:
  EveryWorld() : world_(GetParam()) {}

  int size() const { return world_.size(); }
  bool is_one_host() const { return GetParam().back() == 0 && GetParam() == Hosts(GetParam().size(), 0); }

  CollectiveWorld world_;
};

}  // namespace ringtune::testing
