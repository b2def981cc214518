// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <linux/sockios.h>
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

// An idle connection is probed so that a limit is noticed also where nothing is being sent.
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

Moved try_send(int fd, ByteSpan bytes) {
  return moved(send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
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
