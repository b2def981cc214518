// SPDX-License-Identifier: Apache-2.0
// Threads of a rank that may sleep until the next event, both at the same time.
#pragma once

#include <cstdint>

namespace ringtune {

// One bit each.
enum class Sleeper : uint32_t {
  kThread = 1,  // the communication thread between two looks for work
  kDriver = 2,  // thread that does the engine's work right now: the communication thread, or a caller in its place
};

}  // namespace ringtune
