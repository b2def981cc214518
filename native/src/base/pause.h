// SPDX-License-Identifier: Apache-2.0
// A hint to the processor that this thread spins.
#pragma once

namespace ringtune {

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace ringtune
