// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"

namespace ringtune {
namespace {

constexpr int kKeepaliveProbes = 4;
constexpr int64_t kMaxProbeS = 32767;  // the system's own bound
// A rank that waits for the peer has more to say, and says it at the limit itself.
constexpr int64_t kGraceNs = kNsPerS;

// Refused where it does not apply (no TCP), which does no harm.
void set_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof(value)); }

// An idle connection is probed so that the limit is noticed also where no bytes are being sent.
void bound_silence(int fd, int64_t timeout_ns) {
  const auto timeout_ms = static_cast<int>(std::min<int64_t>((timeout_ns + kGraceNs) / kNsPerMs, INT_MAX));
  const int probe_s =
      static_cast<int>(std::clamp<int64_t>(timeout_ns / kNsPerS / (kKeepaliveProbes + 1), 1, kMaxProbeS));
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms);
}

bool is_granted(const char* limit_file, int bytes) {
  std::ifstream file(limit_file);
  int limit_bytes = 0;
  return file >> limit_bytes && limit_bytes >= bytes;
}

Moved moved(ssize_t result) {
  if (result >= 0) {
    return {static_cast<size_t>(result), false, 0};
  }
  const bool is_not_now = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return {0, !is_not_now, is_not_now ? 0 : errno};
}

// Without its port; two addresses of one host are equal here.
std::string host_of(const sockaddr_storage& address) {
  std::array<char, NI_MAXHOST> host{};
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  const bool is_known =
      getnameinfo(generic, sizeof(address), host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return is_known ? host.data() : "an unknown address";
}

// Name of the interface that has the address, empty if none has.
std::string interface_of(const sockaddr_storage& address) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return "";
  }
  std::string name;
  for (const ifaddrs* entry = first; entry != nullptr && name.empty(); entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != address.ss_family) {
      continue;
    }
    sockaddr_storage other{};
    std::memcpy(&other, entry->ifa_addr, address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    name = host_of(other) == host_of(address) ? entry->ifa_name : "";
  }
  freeifaddrs(first);
  return name;
}

}  // namespace

void adopt_socket(int fd, int64_t timeout_ns) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (timeout_ns > 0) {
    bound_silence(fd, timeout_ns);
  }
}

void widen_buffers(int fd, int bytes) {
  if (is_granted("/proc/sys/net/core/wmem_max", bytes)) {
    set_option(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  }
  if (is_granted("/proc/sys/net/core/rmem_max", bytes)) {
    set_option(fd, SOL_SOCKET, SO_RCVBUF, bytes);
  }
}

void limit_unsent(int fd, int bytes) { set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes); }

std::string describe_own_end(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 || own.ss_family == AF_UNIX) {
    return "";
  }
  const std::string interface = interface_of(own);
  return host_of(own) + (interface.empty() ? "" : " (" + interface + ")");
}

Moved try_send(int fd, ByteSpan bytes, bool has_more) {
  return moved(send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL | (has_more ? MSG_MORE : 0)));
}

Moved try_receive(int fd, MutableByteSpan bytes) {
  const ssize_t received = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return received == 0 && !bytes.empty() ? Moved{0, true, 0} : moved(received);
}

size_t unconfirmed_bytes(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? static_cast<size_t>(std::max(0, bytes)) : 0;
}

std::string describe_loss(int error) {
  if (error == EBADMSG) {
    return "TLS refuses its bytes, which were changed on the way";
  }
  return error == 0 ? "the peer closed it" : std::strerror(error);
}

}  // namespace ringtune
