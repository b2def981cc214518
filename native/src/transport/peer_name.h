// SPDX-License-Identifier: Apache-2.0
// Name of a rank in messages: the facts by which people find its process.
#pragma once

#include <string>
#include <vector>

#include "transport/layout.h"
#include "transport/transport.h"

namespace ringtune {

// "rank 3 (host 1, pid 4711)"; leaves out the host in a world of one, and the pid where `pids` (by world rank, may be
// empty) does not know it.
std::string peer_name(const Layout& layout, const std::vector<int>& pids, int rank);

// "rank 3 (host 1) has fallen silent by way of 10.0.0.1 (eth0)": the network may be at fault, and not the rank.
std::string describe_silence(const Transport& transport, const Layout& layout, const std::vector<int>& pids, int rank);

}  // namespace ringtune
