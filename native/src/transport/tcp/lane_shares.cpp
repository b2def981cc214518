// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/lane_shares.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

// The system's own header, for TCP's newer facts; it cannot stand beside <netinet/tcp.h>.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/tcp/socket.h"

namespace ringtune {
namespace {

// Bytes of a connection whose rate is that of TCP's start rather than the link's: the window has opened to the product
// of 1 Gbit/s and 8 ms by then.
constexpr uint64_t kStartBytes = 1 << 20;

// A lane that has sent no bytes yet counts as an average one.
std::vector<double> rates_of(std::span<const LaneLoad> lanes) {
  const auto is_known = [](const LaneLoad& lane) { return lane.bytes_per_s > 0; };
  const auto known = std::count_if(lanes.begin(), lanes.end(), is_known);
  const double sum = std::accumulate(lanes.begin(), lanes.end(), 0.0,
                                     [](double before, const LaneLoad& lane) { return before + lane.bytes_per_s; });
  std::vector<double> rates;
  for (const LaneLoad& lane : lanes) {
    rates.push_back(is_known(lane) ? lane.bytes_per_s : known == 0 ? 1.0 : sum / static_cast<double>(known));
  }
  return rates;
}

}  // namespace

LaneLoad lane_load(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  LaneLoad load{0, static_cast<double>(unconfirmed_bytes(fd))};
  const bool is_tcp = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  if (is_tcp && info.tcpi_bytes_acked >= kStartBytes) {
    load.bytes_per_s = static_cast<double>(info.tcpi_delivery_rate);  // stays 0 on a system that does not tell it
    load.is_limited = info.tcpi_delivery_rate_app_limited != 0;
  }
  return load;
}

std::vector<double> lane_shares(double rest_bytes, std::span<const LaneLoad> lanes) {
  const std::vector<double> rates = rates_of(lanes);
  std::vector<size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return lanes[a].queued_bytes * rates[b] < lanes[b].queued_bytes * rates[a]; });
  double end_s = 0;
  double bytes = rest_bytes;
  double rate = 0;
  for (const size_t lane : order) {
    if (rate > 0 && lanes[lane].queued_bytes >= end_s * rates[lane]) {
      break;
    }
    bytes += lanes[lane].queued_bytes;
    rate += rates[lane];
    end_s = bytes / rate;
  }
  std::vector<double> shares;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    shares.push_back(std::max(0.0, end_s * rates[lane] - lanes[lane].queued_bytes));
  }
  return shares;
}

}  // namespace ringtune
