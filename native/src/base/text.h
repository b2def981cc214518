// SPDX-License-Identifier: Apache-2.0
// Pieces of messages that people read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringtune {

// "12.5 s"
std::string format_seconds(int64_t ns);

// "rank 3" or "ranks 0, 2"
std::string format_ranks(const std::vector<int>& ranks);

std::string format_hex(uint64_t value);

}  // namespace ringtune
