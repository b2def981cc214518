// SPDX-License-Identifier: Apache-2.0
#include "engine/response_cache.h"

#include <algorithm>

namespace ringtune {

ArenaOffset common_place(std::span<const ArenaOffset> places) {
  const auto is_elsewhere = [&places](ArenaOffset place) { return place != places.front(); };
  return std::ranges::any_of(places, is_elsewhere) ? kNotInArena : places.front();
}

CacheId ResponseCache::find(const std::string& name, const Signature& signature,
                            std::span<const ArenaOffset> places) const {
  const CacheId id = latest(name);
  if (id == kNoCacheId) {
    return kNoCacheId;
  }
  const Entry& known = entries_[id - 1];
  return known.signature == signature && std::ranges::equal(known.places, places) ? id : kNoCacheId;
}

const ResponseCache::Entry* ResponseCache::entry(CacheId id) const {
  return id == kNoCacheId || id > entries_.size() ? nullptr : &entries_[id - 1];
}

CacheId ResponseCache::latest(const std::string& name) const {
  const auto found = latest_.find(name);
  return found == latest_.end() ? kNoCacheId : found->second;
}

CacheId ResponseCache::assign(const std::string& name, const Signature& signature,
                              std::span<const ArenaOffset> places) {
  if (entries_.size() >= kMaxCacheId) {
    return kNoCacheId;
  }
  const auto id = static_cast<CacheId>(entries_.size() + 1);
  return learn(id, name, signature, places) ? id : kNoCacheId;
}

bool ResponseCache::learn(CacheId id, const std::string& name, const Signature& signature,
                          std::span<const ArenaOffset> places) {
  if (id != entries_.size() + 1) {
    return false;
  }
  entries_.push_back({name, signature, {places.begin(), places.end()}, common_place(places)});
  CacheId& latest = latest_[name];
  if (latest != kNoCacheId) {
    entries_[latest - 1].is_superseded = true;
  }
  latest = id;
  return true;
}

}  // namespace ringtune
