// SPDX-License-Identifier: Apache-2.0
// Lists of cache ids, encoded in the shorter of two ways: runs of successive ids, in any order, or one bit for each id
// of a range, where the list ascends.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/codec.h"

namespace ringtune {

// Identifies (name, signature) once all ranks agreed on it; 0 is "none".
using CacheId = uint32_t;
inline constexpr CacheId kNoCacheId = 0;
inline constexpr CacheId kMaxCacheId = 1 << 16;

// Ids are 1 ... kMaxCacheId.
void put_cache_ids(Writer& writer, const std::vector<CacheId>& ids);
// At most kMaxCacheId of them, whatever the frame announces; else it is broken.
std::vector<CacheId> get_cache_ids(Reader& reader);

}  // namespace ringtune
