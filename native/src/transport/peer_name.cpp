// SPDX-License-Identifier: Apache-2.0
#include "transport/peer_name.h"

namespace ringtune {

std::string peer_name(const Layout& layout, const std::vector<int>& pids, int rank) {
  std::string place = layout.host_count() > 1 ? "host " + std::to_string(layout.host_of(rank)) : "";
  const auto index = static_cast<size_t>(rank);
  if (index < pids.size() && pids[index] > 0) {
    place += (place.empty() ? "pid " : ", pid ") + std::to_string(pids[index]);
  }
  return "rank " + std::to_string(rank) + (place.empty() ? "" : " (" + place + ")");
}

std::string describe_silence(const Transport& transport, const Layout& layout, const std::vector<int>& pids, int rank) {
  return peer_name(layout, pids, rank) + " has fallen silent" + transport.describe_way(rank);
}

}  // namespace ringtune
