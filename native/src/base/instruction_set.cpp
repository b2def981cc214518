// SPDX-License-Identifier: Apache-2.0
#include "base/instruction_set.h"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ringtune {
namespace {

constexpr std::array kAll{InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512};

#if defined(__x86_64__)
// Some compilers' __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

size_t count_supported() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) {
    return 1;
  }
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? 3 : 2;
#else
  return 1;
#endif
}

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  static const size_t supported = count_supported();
  return std::span(kAll).first(supported);
}

}  // namespace ringtune
