// SPDX-License-Identifier: Apache-2.0
// Tensors that all ranks have agreed on (name, signature, places), by the small id that stands for each afterwards.
//
// An id never changes its meaning; a tensor that comes with another signature, or lies elsewhere, gets another id. So
// an id that is in flight meanwhile cannot be misread.
//
// A *place* is an offset in a rank's arena, or none. The coordinator's cache knows every rank's, a rank's its own.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "wire/messages.h"

namespace ringtune {

// The place that all of them are, or kNotInArena.
ArenaOffset common_place(std::span<const ArenaOffset> places);

class ResponseCache {
 public:
  struct Entry {
    std::string name;
    Signature signature;
    std::vector<ArenaOffset> places;
    ArenaOffset common_place;    // on all ranks, or kNotInArena
    bool is_superseded = false;  // the name has another id since; no rank uses this one any more
  };

  // The id of exactly this, or kNoCacheId.
  CacheId find(const std::string& name, const Signature& signature, std::span<const ArenaOffset> places) const;
  // nullptr for an id that was never assigned.
  const Entry* entry(CacheId id) const;
  // The id that a name has now, or kNoCacheId.
  CacheId latest(const std::string& name) const;

  // The coordinator: the next id, or kNoCacheId when the cache is full (shapes that change too often).
  CacheId assign(const std::string& name, const Signature& signature, std::span<const ArenaOffset> places);
  // Every rank: takes the coordinator's assignment. False if it contradicts an earlier one.
  bool learn(CacheId id, const std::string& name, const Signature& signature, std::span<const ArenaOffset> places);

 private:
  std::vector<Entry> entries_;  // index: id - 1
  std::unordered_map<std::string, CacheId> latest_;
};

}  // namespace ringtune
