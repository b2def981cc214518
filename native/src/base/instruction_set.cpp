// SPDX-License-Identifier: Apache-2.0
#include "base/instruction_set.h"

#include <array>

namespace ringtune {
namespace {

constexpr std::array kAll{InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512};

size_t count_supported() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) {
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
