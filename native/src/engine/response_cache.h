// SPDX-License-Identifier: Apache-2.0
// (name, signature) pairs that all ranks agreed on, by the small id that stands for them afterwards.
//
// An id never changes its meaning; a tensor that comes with another signature gets another id. So an id that is in
// flight while a signature changes cannot be misread.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "wire/messages.h"

namespace ringtune {

class ResponseCache {
 public:
  struct Entry {
    std::string name;
    Signature signature;
  };

  // The id of exactly this pair, or kNoCacheId.
  CacheId find(const std::string& name, const Signature& signature) const;
  // nullptr for an id that was never assigned.
  const Entry* entry(CacheId id) const;

  // The coordinator: the next id, or kNoCacheId when the cache is full (names or shapes that never repeat).
  CacheId assign(const std::string& name, const Signature& signature);
  // Every rank: what the coordinator assigned. False if it contradicts what is known.
  bool learn(CacheId id, const std::string& name, const Signature& signature);

 private:
  static constexpr size_t kCapacity = 1 << 16;

  std::vector<Entry> entries_;  // index: id - 1
  std::unordered_map<std::string, CacheId> latest_;
};

}  // namespace ringtune
