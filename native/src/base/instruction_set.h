// SPDX-License-Identifier: Apache-2.0
// Loops that are compiled several times, and the choice among the copies at run time.
#pragma once

#include <cstdint>
#include <span>

namespace ringtune {

enum class InstructionSet : uint8_t { kPortable, kAvx2, kAvx512 };

// Those that this processor has; the best one is the last.
std::span<const InstructionSet> instruction_sets();

#if defined(__x86_64__)
#define RINGTUNE_AVX2 __attribute__((target("avx2,f16c")))
#if defined(__clang__)
#define RINGTUNE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#else  // GCC keeps to half of the registers' width by default
#define RINGTUNE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,prefer-vector-width=512")))
#endif
#else  // the architecture's base has these instructions
#define RINGTUNE_AVX2
#define RINGTUNE_AVX512
#endif

// `Compiled<void (*)(A...)>::pick<loop>(set)` is `loop`, compiled for the set with all that it inlines.
template <typename Function>
struct Compiled;

template <typename... A>
struct Compiled<void (*)(A...)> {
  using Loop = void (*)(A...);

  template <Loop kLoop>
  static Loop pick(InstructionSet set) {
    switch (set) {
      case InstructionSet::kAvx512:
        return &avx512<kLoop>;
      case InstructionSet::kAvx2:
        return &avx2<kLoop>;
      case InstructionSet::kPortable:
        break;
    }
    return kLoop;
  }

 private:
  template <Loop kLoop>
  RINGTUNE_AVX512 static void avx512(A... arguments) {
    kLoop(arguments...);
  }
  template <Loop kLoop>
  RINGTUNE_AVX2 static void avx2(A... arguments) {
    kLoop(arguments...);
  }
};

}  // namespace ringtune
