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

// Not FUTEX_PRIVATE_FLAG: the word is shared between processes.
void futex_wait(SharedU32& word, uint32_t expected, int64_t timeout_ns) {
  timespec limit{timeout_ns / kNsPerS, timeout_ns % kNsPerS};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout_ns < 0 ? nullptr : &limit, nullptr, 0);
}

void futex_wake_all(SharedU32& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

uint32_t Doorbell::announce() {
  const uint32_t ticket = rings.load();
  is_sleeping.store(1);
  return ticket;
}

void Doorbell::cancel() { is_sleeping.store(0); }

void Doorbell::sleep(uint32_t ticket, int64_t timeout_ns) {
  if (rings.load() == ticket) {
    futex_wait(rings, ticket, timeout_ns);
  }
  is_sleeping.store(0);
}

void Doorbell::ring() {
  if (is_sleeping.load() != 0) {
    rings.fetch_add(1);
    futex_wake_all(rings);
  }
}

}  // namespace ringtune
