// SPDX-License-Identifier: Apache-2.0
// Measures the rate of each host's link, beside all other collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "collectives/collective_context.h"

namespace ringtune {

// Bytes per second of each host's link, the same on all ranks, which call it together. Hosts meet in pairs and exchange
// bytes both ways; a host's rate is the best of its meetings, since a meeting is as slow as the slower of the two. The
// fastest host therefore counts as fast as the second. Every local rank that owns blocks takes part, as in an
// allreduce. A meeting takes some 0.4 s.
Status measure_host_rates(const CollectiveContext& context, std::vector<uint64_t>& rates);

}  // namespace ringtune
