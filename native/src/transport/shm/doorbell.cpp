// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/doorbell.h"

#include <climits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

namespace ringtune {
namespace {

constexpr uint32_t bit(Sleeper sleeper) { return static_cast<uint32_t>(sleeper); }

// Not FUTEX_PRIVATE_FLAG: the word is shared between processes. Such a limit is a time on the steady clock.
void futex_wait(SharedU32& word, uint32_t expected, int64_t timeout_ns, uint32_t mask) {
  const int64_t end_ns = now_ns() + timeout_ns;
  const timespec end{end_ns / kNsPerS, end_ns % kNsPerS};
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, timeout_ns < 0 ? nullptr : &end, nullptr, mask);
}

void futex_wake(SharedU32& word, uint32_t mask) {
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, mask);
}

}  // namespace

uint32_t Doorbell::announce(Sleeper sleeper) {
  const uint32_t ticket = rings.load();
  sleepers.fetch_or(bit(sleeper));
  return ticket;
}

void Doorbell::cancel(Sleeper sleeper) { sleepers.fetch_and(~bit(sleeper)); }

void Doorbell::sleep(Sleeper sleeper, uint32_t ticket, int64_t timeout_ns) {
  if (rings.load() == ticket) {
    futex_wait(rings, ticket, timeout_ns, bit(sleeper));
  }
  cancel(sleeper);
}

void Doorbell::ring() {
  if (sleepers.load() != 0) {
    const uint32_t woken = sleepers.exchange(0);  // the next ring need not wake them again
    rings.fetch_add(1);
    futex_wake(rings, woken);
  }
}

void Doorbell::awaken(Sleeper sleeper) {
  rings.fetch_add(1);
  futex_wake(rings, bit(sleeper));
}

}  // namespace ringtune
