// SPDX-License-Identifier: Apache-2.0
// Layout rules of shared memory: a variable that several processes touch is lock-free and has cache lines of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ringtune {

inline constexpr size_t kCacheLine = 64;
inline constexpr size_t kPage = 4096;

using SharedU32 = std::atomic<uint32_t>;
using SharedU64 = std::atomic<uint64_t>;
static_assert(SharedU32::is_always_lock_free && SharedU64::is_always_lock_free);
static_assert(sizeof(SharedU32) == 4 && sizeof(SharedU64) == 8);

inline constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace ringtune
