// SPDX-License-Identifier: Apache-2.0
// An event on which threads sleep and any thread of any process rings: a futex in shared memory.
//
// No ring is lost because of the order (all sequentially consistent): the sleeper stores its bit in `sleepers`, then
// looks at the condition; the ringer makes the condition true, then loads `sleepers`. One of the two sees the other.
#pragma once

#include <cstdint>

#include "transport/shm/atomics.h"
#include "transport/sleeper.h"

namespace ringtune {

struct alignas(kCacheLine) Doorbell {
  SharedU32 rings;
  SharedU32 sleepers;  // bits of `Sleeper`

  // Before the last look at the condition. Only sleepers that have announced themselves are woken.
  uint32_t announce(Sleeper sleeper);
  void cancel(Sleeper sleeper);
  // Sleeps until a ring since `announce`, or for `timeout_ns` (negative: no limit).
  void sleep(Sleeper sleeper, uint32_t ticket, int64_t timeout_ns);
  // After the condition was made true. A system call only if somebody sleeps.
  void ring();
  // Wakes a sleeper whose announcement somebody else has cancelled.
  void awaken(Sleeper sleeper);
};

}  // namespace ringtune
