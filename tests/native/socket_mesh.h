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

// All sockets of one world. What `control_fds` and `data_fds` return is the caller's and can be had once.
class SocketMesh {
 public:
  explicit SocketMesh(std::vector<int> hosts, SocketKind kind = SocketKind::kSocketPair)
      : layout_(0, std::move(hosts)), control_(table()), data_(table()) {
    for (int rank = 0; rank < layout_.world_size() && layout_.host_count() > 1; ++rank) {
      for (int peer = rank + 1; peer < layout_.world_size(); ++peer) {
        connect(data_, rank, peer, kind);
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

  Table table() const {
    const auto size = static_cast<size_t>(layout_.world_size());
    return Table(size, std::vector<int>(layout_.host_count() > 1 ? size : 0, -1));
  }

  static void connect(Table& table, int rank, int peer, SocketKind kind) {
    const auto a = static_cast<size_t>(rank);
    const auto b = static_cast<size_t>(peer);
    std::tie(table[a][b], table[b][a]) = connected_sockets(kind);
  }

  Layout layout_;
  Table control_;
  Table data_;
};

}  // namespace ringtune::testing
