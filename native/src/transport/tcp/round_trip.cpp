// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/round_trip.h"

#include <cstddef>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"

namespace ringtune {

int64_t round_trip_ns(int fd) {
  constexpr uint32_t kUnknown = ~uint32_t{0};
  constexpr int64_t kNsPerUs = kNsPerMs / 1000;
  tcp_info info{};
  socklen_t size = sizeof(info);
  const bool is_known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                        size >= offsetof(tcp_info, tcpi_min_rtt) + sizeof(info.tcpi_min_rtt);
  return is_known && info.tcpi_min_rtt != kUnknown ? int64_t{info.tcpi_min_rtt} * kNsPerUs : 0;
}

}  // namespace ringtune
