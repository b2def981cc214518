// SPDX-License-Identifier: Apache-2.0
#include "engine/response_cache.h"

namespace ringtune {

CacheId ResponseCache::find(const std::string& name, const Signature& signature) const {
  const auto found = latest_.find(name);
  if (found == latest_.end() || entries_[found->second - 1].signature != signature) {
    return kNoCacheId;
  }
  return found->second;
}

const ResponseCache::Entry* ResponseCache::entry(CacheId id) const {
  return id == kNoCacheId || id > entries_.size() ? nullptr : &entries_[id - 1];
}

CacheId ResponseCache::assign(const std::string& name, const Signature& signature) {
  if (entries_.size() >= kCapacity) {
    return kNoCacheId;
  }
  const auto id = static_cast<CacheId>(entries_.size() + 1);
  return learn(id, name, signature) ? id : kNoCacheId;
}

bool ResponseCache::learn(CacheId id, const std::string& name, const Signature& signature) {
  if (id != entries_.size() + 1) {
    return false;
  }
  entries_.push_back({name, signature});
  latest_[name] = id;
  return true;
}

}  // namespace ringtune
