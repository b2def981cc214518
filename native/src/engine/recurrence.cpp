// SPDX-License-Identifier: Apache-2.0
#include "engine/recurrence.h"

#include <utility>

#include "base/hash.h"

namespace ringtune {
namespace {

template <typename Value>
uint64_t hash_value(const Value& value, uint64_t hash) {
  return fnv1a(&value, sizeof(value), hash);
}

uint64_t hash_of(const Signature& signature, ArenaOffset place) {
  uint64_t hash = hash_value(signature.kind, kFnvOffset);
  hash = hash_value(signature.dtype, hash);
  hash = hash_value(signature.op, hash);
  hash = hash_value(signature.root_rank, hash);
  hash = hash_value(signature.prescale, hash);
  hash = hash_value(signature.postscale, hash);
  hash = hash_value(signature.shape.size(), hash);
  hash = fnv1a(signature.shape.data(), signature.shape.size() * sizeof(int64_t), hash);
  hash = fnv1a(signature.group.data(), signature.group.size(), hash);
  hash = hash_value(signature.group_size, hash);
  return hash_value(place, hash);
}

}  // namespace

bool Recurrence::comes_again(const std::string& name, const Signature& signature, ArenaOffset place) {
  const uint64_t who = fnv1a(name.data(), name.size());
  const uint64_t what = hash_of(signature, place);
  if (const auto known = recent_.find(who); known != recent_.end()) {
    return std::exchange(known->second, what) == what;
  }
  const auto old = older_.find(who);
  const bool is_again = old != older_.end() && old->second == what;
  if (recent_.size() >= kMemory) {
    older_ = std::exchange(recent_, {});
  }
  recent_.emplace(who, what);
  return is_again;
}

}  // namespace ringtune
