// SPDX-License-Identifier: Apache-2.0
// 64-bit FNV-1a, and a finalizer that makes order-independent sums of hashes safe to compare.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringtune {

inline constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ULL;
inline constexpr uint64_t kFnvPrime = 0x100000001b3ULL;

inline uint64_t fnv1a(const void* data, size_t bytes, uint64_t hash = kFnvOffset) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ byte[i]) * kFnvPrime;
  }
  return hash;
}

// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
inline uint64_t mix64(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace ringtune
