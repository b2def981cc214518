// SPDX-License-Identifier: Apache-2.0
#include "engine/response_cache.h"

#include <algorithm>

namespace ringtune {

CacheId ResponseCache::find(const std::string& name, const Signature& signature,
                            std::span<const ArenaOffset> places) const {
  const auto found = latest_.find(name);
  if (found == latest_.end()) {
    return kNoCacheId;
  }
  const Entry& known = entries_[found->second - 1];
  return known.signature == signature && std::ranges::equal(known.places, places) ? found->second : kNoCacheId;
}

const ResponseCache::Entry* ResponseCache::entry(CacheId id) const {
  return id == kNoCacheId || id > entries_.size() ? nullptr : &entries_[id - 1];
}

CacheId ResponseCache::assign(const std::string& name, const Signature& signature,
                              std::span<const ArenaOffset> places) {
  if (entries_.size() >= kCapacity) {
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
  entries_.push_back({name, signature, {places.begin(), places.end()}});
  latest_[name] = id;
  return true;
}

}  // namespace ringtune
