// SPDX-License-Identifier: Apache-2.0
// The connected sockets of a world that spans hosts, as the rendezvous hands them out: control and data.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/layout.h"

namespace ringtune::testing {

enum class SocketKind { kSocketPair, kLoopback };

inline std::pair<int, int> connect_by_loopback() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(0, bind(listener, generic, size));
  EXPECT_EQ(0, listen(listener, 1));
  EXPECT_EQ(0, getsockname(listener, generic, &size));
  const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(0, connect(caller, generic, size));
  const int callee = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_GE(callee, 0);
  close(listener);
  return {caller, callee};
}

inline std::pair<int, int> connected_sockets(SocketKind kind) {
  if (kind == SocketKind::kLoopback) {
    return connect_by_loopback();
  }
  int ends[2] = {-1, -1};
  EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  return {ends[0], ends[1]};
}

// All sockets of one world. The caller owns the descriptors that `control_fds` and `data_fds` return, each once.
class SocketMesh {
 public:
  // `lanes`: connections of each pair of ranks beside the first.
  explicit SocketMesh(std::vector<int> hosts, SocketKind kind = SocketKind::kSocketPair, size_t lanes = 0)
      : layout_(0, std::move(hosts)), control_(table(0)), data_(table(lanes)) {
    for (int rank = 0; rank < layout_.world_size() && layout_.host_count() > 1; ++rank) {
      for (int peer = rank + 1; peer < layout_.world_size(); ++peer) {
        for (size_t lane = 0; lane <= lanes; ++lane) {
          connect(data_, rank, peer, kind, lane);
        }
        if (rank == 0 && !layout_.is_local(peer)) {
          connect(control_, rank, peer, kind);
        }
      }
    }
  }
  ~SocketMesh() {
    for (const Table* table : {&control_, &data_}) {
      for (const std::vector<int>& fds : *table) {
        close_all(fds);
      }
    }
  }
  SocketMesh(const SocketMesh&) = delete;
  SocketMesh& operator=(const SocketMesh&) = delete;

  // One entry per rank, -1 for none; empty in a world of one host, as in EngineOptions.
  std::vector<int> control_fds(int rank) { return std::exchange(control_[static_cast<size_t>(rank)], {}); }
  std::vector<int> data_fds(int rank) { return std::exchange(data_[static_cast<size_t>(rank)], {}); }

  static void close_all(const std::vector<int>& fds) {
    for (const int fd : fds) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }

 private:
  using Table = std::vector<std::vector<int>>;

  Table table(size_t lanes) const {
    const auto size = static_cast<size_t>(layout_.world_size());
    return Table(size, std::vector<int>(layout_.host_count() > 1 ? size * (1 + lanes) : 0, -1));
  }

  static void connect(Table& table, int rank, int peer, SocketKind kind, size_t lane = 0) {
    const auto a = static_cast<size_t>(rank);
    const auto b = static_cast<size_t>(peer);
    const size_t first = lane * table.size();
    std::tie(table[a][first + b], table[b][first + a]) = connected_sockets(kind);
  }

  Layout layout_;
  Table control_;
  Table data_;
};

}  // namespace ringtune::testing
