// SPDX-License-Identifier: Apache-2.0
// An event on which one thread sleeps and any thread of any process rings: a futex in shared memory.
//
// Nothing is lost because of the order (all sequentially consistent): the sleeper stores `is_sleeping`, then looks at
// the condition; the ringer makes the condition true, then loads `is_sleeping`. One of the two sees the other.
#pragma once

#include <cstdint>

#include "transport/shm/atomics.h"

namespace ringtune {

struct alignas(kCacheLine) Doorbell {
  SharedU32 rings;
  SharedU32 is_sleeping;

  // Before the last look at the condition.
  uint32_t announce();
  void cancel();
  // Sleeps until a ring since `announce`, or for `timeout_ns` (negative: no limit).
  void sleep(uint32_t ticket, int64_t timeout_ns);
  // After the condition was made true. A system call only if somebody sleeps.
  void ring();
};

}  // namespace ringtune
