// SPDX-License-Identifier: Apache-2.0
// The engine's knobs: one table, and EngineConfig, which holds a value for each row.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "base/status.h"

namespace ringtune {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;

inline constexpr uint64_t kMinChunkBytes = 16 * kKiB;
inline constexpr uint64_t kMaxChunkBytes = 4 * kMiB;

inline constexpr uint64_t kMaxConnections = 16;

inline constexpr const char* kAutoAlgorithm = "auto";

// Values of `wire`.
inline constexpr const char* kWireExact = "exact";
inline constexpr const char* kWireBf16 = "bf16";

// Meaning of 0 for a number whose range does not hold it.
enum class Zero : uint8_t { kRefused, kOff, kAuto };

// Allowed values of a number, both ends included. The box is compiled in: a value outside it is never applied, not even
// if an optimizer or a service sends it.
template <typename T>
struct Range {
  constexpr Range(T lowest, T highest, Zero zero_means = Zero::kRefused)
      : low(lowest), high(highest), zero(zero_means) {}

  // NaN is refused.
  constexpr bool allows(T value) const {
    return (value == 0 && zero != Zero::kRefused) || (value >= low && value <= high);
  }

  T low;
  T high;
  Zero zero;
};

// For switches, and for names, which the owner of their registry checks.
struct AnyValue {
  template <typename T>
  constexpr bool allows(const T&) const {
    return true;
  }
};

template <size_t kCount>
struct OneOf {
  constexpr bool allows(std::string_view value) const { return std::ranges::find(names, value) != names.end(); }

  std::array<std::string_view, kCount> names;
};

// A row per knob: name, type, default, allowed values, description. Everything that concerns all knobs iterates over
// these rows: the struct, the checks, the hash, the wire format, the Python binding and, through it, the metrics. Their
// order is that of the wire format and of the hash, so that a new knob comes last.
#define RINGTUNE_KNOBS(KNOB)                                                                                          \
  KNOB(fusion_bytes, uint64_t, 64 * kMiB, Range(64 * kKiB, 256 * kMiB, Zero::kOff),                                   \
       "Largest number of bytes that are reduced together; 0: fusion is off.")                                        \
  KNOB(cycle_ms, double, 1.0, Range(0.05, 50.0), "Longest time that a ready tensor waits for others.")                \
  KNOB(hierarchical_allreduce, bool, false, AnyValue(), "Allreduces use shared memory inside each host.")             \
  KNOB(hierarchical_allgather, bool, false, AnyValue(), "Allgathers use shared memory inside each host.")             \
  KNOB(response_cache, bool, true, AnyValue(), "Tensors that were seen before are requested by number.")              \
  KNOB(allreduce_algorithm, std::string, kAutoAlgorithm, AnyValue(), "Row of the registry; auto: the table decides.") \
  KNOB(chunk_bytes, uint64_t, 0, Range(kMinChunkBytes, kMaxChunkBytes, Zero::kAuto),                                  \
       "Bytes that are moved at once; 0: the algorithm table decides.")                                               \
  KNOB(nccl_pack_bytes, uint64_t, 256 * kKiB, Range(kKiB, 64 * kMiB, Zero::kOff),                                     \
       "GPUs' tensors up to this size share one call of NCCL; 0: none do.")                                           \
  KNOB(nccl_ctas, uint64_t, 0, Range<uint64_t>(1, 32, Zero::kAuto),                                                   \
       "Largest number of thread blocks of NCCL on a GPU; 0: NCCL decides.")                                          \
  KNOB(nccl_hierarchical, bool, false, AnyValue(), "NCCL reduces inside each host, the engine's network across.")     \
  KNOB(connections, uint64_t, 1, Range<uint64_t>(1, kMaxConnections),                                                 \
       "TCP connections that share the messages between two ranks of different hosts.")                               \
  KNOB(skew, bool, false, AnyValue(), "Hosts reduce shares in proportion to the measured rates of their links.")      \
  KNOB(wire, std::string, kWireExact, (OneOf<2>{{kWireExact, kWireBf16}}),                                            \
       "Form in which partial sums of gradients travel between hosts; bf16 rounds them.")

#define RINGTUNE_FIELD(name, type, initial, allowed, description) type name = initial;
struct EngineConfig {
  RINGTUNE_KNOBS(RINGTUNE_FIELD)

  bool operator==(const EngineConfig&) const = default;
};
#undef RINGTUNE_FIELD

template <typename T, typename Allowed>
struct Knob {
  const char* name;
  T EngineConfig::*value;  // member: config.*knob.value
  Allowed allowed;
  const char* description;
};

// Clang before 17 deduces no arguments of an aggregate.
template <typename T, typename Allowed>
Knob(const char*, T EngineConfig::*, Allowed, const char*) -> Knob<T, Allowed>;

#define RINGTUNE_ROW(name, type, initial, allowed, description) Knob{#name, &EngineConfig::name, allowed, description},
inline constexpr std::tuple kKnobs{RINGTUNE_KNOBS(RINGTUNE_ROW)};
#undef RINGTUNE_ROW

template <typename Visit>
void for_each_knob(Visit visit) {
  std::apply([&visit](const auto&... knob) { (visit(knob), ...); }, kKnobs);
}

// Checks every knob against its row.
Status validate(const EngineConfig& config);

// "fusion_bytes 8388608, cycle_ms 2.5, ...", for people.
std::string describe(const EngineConfig& config);

// "67108864|0x1p+0|001|auto|0", exact. Bars separate values; neighbouring switches, one digit each, have none.
std::string canonical_text(const EngineConfig& config);

// FNV-1a over the canonical text; ranks compare it to prove that they run the same config.
uint64_t config_hash(const EngineConfig& config);

}  // namespace ringtune
