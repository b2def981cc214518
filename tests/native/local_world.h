// SPDX-License-Identifier: Apache-2.0
// A world whose ranks are threads of this process; those of one host share one mapping of one segment.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "socket_mesh.h"
#include "transport/tcp/tcp_links.h"

namespace ringtune::testing {

inline constexpr int64_t kDeadlineNs = 60 * kNsPerS;

inline std::shared_ptr<Segment> make_segment(int world_size) {
  int fd = -1;
  std::shared_ptr<Segment> segment;
  EXPECT_TRUE(Segment::create(world_size, fd).ok());
  EXPECT_TRUE(Segment::map(fd, world_size, segment).ok());
  close(fd);
  return segment;
}

inline EngineOptions make_options(int rank, const std::vector<int>& hosts) {
  EngineOptions options;
  options.rank = rank;
  options.hosts = hosts;
  options.stall_warn_s = 30;
  options.timeout_s = 60;
  return options;
}

inline EngineOptions make_options(int rank, int world_size) {
  return make_options(rank, std::vector<int>(static_cast<size_t>(world_size)));
}

using Adjust = std::function<void(EngineOptions&)>;

// One engine per rank; `hosts` as in Layout, with sockets between the hosts; `lanes` as in SocketMesh.
inline std::vector<std::unique_ptr<Engine>> make_engines(const std::vector<int>& hosts, const Adjust& adjust,
                                                         size_t lanes = 0) {
  const Layout layout(0, hosts);
  std::vector<std::shared_ptr<Segment>> segments;
  for (int host = 0; host < layout.host_count(); ++host) {
    segments.push_back(make_segment(static_cast<int>(layout.ranks_of(host).size())));
  }
  SocketMesh mesh(hosts, SocketKind::kSocketPair, lanes);
  std::vector<std::unique_ptr<Engine>> engines;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    EngineOptions options = make_options(rank, hosts);
    options.transport.control_fds = mesh.control_fds(rank);
    if (adjust) {
      adjust(options);
    }
    const int64_t timeout_ns = seconds_to_ns(options.timeout_s);
    options.make_links = [fds = mesh.data_fds(rank), timeout_ns](Transport& transport, const Layout& own) {
      return std::make_unique<TcpLinks>(transport, own, std::vector<int>{}, fds, timeout_ns);
    };
    EXPECT_TRUE(Engine::check_options(options).ok()) << Engine::check_options(options).message();
    engines.push_back(std::make_unique<Engine>(segments[static_cast<size_t>(layout.host_of(rank))], options));
  }
  return engines;
}

// Runs `body(engine)` once per rank, each in a thread of its own, and ends the engines when all bodies are through.
inline void run_hosts(const std::vector<int>& hosts, const std::function<void(Engine&)>& body,
                      const Adjust& adjust = nullptr, size_t lanes = 0) {
  const std::vector<std::unique_ptr<Engine>> engines = make_engines(hosts, adjust, lanes);
  std::vector<std::thread> ranks;
  for (const std::unique_ptr<Engine>& engine : engines) {
    ranks.emplace_back([&body, &engine] { body(*engine); });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
}

inline void run_world(int world_size, const std::function<void(Engine&)>& body, const Adjust& adjust = nullptr) {
  run_hosts(std::vector<int>(static_cast<size_t>(world_size)), body, adjust);
}

// Waits for the handle as a blocking caller does; a test that hangs fails instead.
inline Status finish(Engine& engine, Handle handle) {
  const std::optional<Outcome> outcome = engine.wait(handle, kDeadlineNs);
  return outcome ? outcome->status : Status(StatusCode::kCollectiveTimeout, "the test's own deadline passed");
}

template <typename T>
constexpr DataType dtype_of();
template <>
constexpr DataType dtype_of<float>() {
  return DataType::kFloat32;
}
template <>
constexpr DataType dtype_of<double>() {
  return DataType::kFloat64;
}
template <>
constexpr DataType dtype_of<int32_t>() {
  return DataType::kInt32;
}
template <>
constexpr DataType dtype_of<int64_t>() {
  return DataType::kInt64;
}

template <typename T>
TensorArguments tensor(const std::string& name, const std::vector<T>& input, std::vector<T>& output) {
  return {name, input.data(), output.data(), {static_cast<int64_t>(input.size())}, dtype_of<T>()};
}

template <typename T>
Status allreduce(Engine& engine, const std::string& name, std::vector<T>& values, ReduceOp op = ReduceOp::kSum) {
  Handle handle = 0;
  if (Status s = engine.allreduce_async(tensor(name, values, values), {op}, false, handle); !s.ok()) return s;
  return finish(engine, handle);
}

inline uint64_t counter(const Engine& engine, const std::string& name) {
  for (const auto& [known, value] : engine.counters()) {
    if (known == name) {
      return value;
    }
  }
  ADD_FAILURE() << "no counter named " << name;
  return 0;
}

}  // namespace ringtune::testing
