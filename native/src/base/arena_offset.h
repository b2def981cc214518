// SPDX-License-Identifier: Apache-2.0
// Offset of a tensor in the memory that the ranks of a host share.
#pragma once

#include <cstdint>
#include <limits>

namespace ringtune {

// Offset from the begin of its rank's arena.
using ArenaOffset = uint64_t;
inline constexpr ArenaOffset kNotInArena = std::numeric_limits<ArenaOffset>::max();

}  // namespace ringtune
