// SPDX-License-Identifier: Apache-2.0
#include "wire/cache_ids.h"

#include <algorithm>
#include <functional>

namespace ringtune {
namespace {

enum class Form : uint8_t { kRuns, kBits };
constexpr int kFormCount = 2;
constexpr uint32_t kBitsPerByte = 8;

// Indices are ids less one: both ends of a run fit into 16 bits.
struct Run {
  uint16_t first;
  uint16_t last;
};

std::vector<Run> runs_of(const std::vector<CacheId>& ids) {
  std::vector<Run> runs;
  CacheId previous = kNoCacheId;
  for (const CacheId id : ids) {
    const auto index = static_cast<uint16_t>(id - 1);
    if (!runs.empty() && id == previous + 1) {
      runs.back().last = index;
    } else {
      runs.push_back({index, index});
    }
    previous = id;
  }
  return runs;
}

bool is_ascending(const std::vector<CacheId>& ids) {
  return std::ranges::adjacent_find(ids, std::ranges::greater_equal()) == ids.end();
}

void put_runs(Writer& writer, const std::vector<Run>& runs) {
  writer.put(Form::kRuns);
  writer.put(static_cast<uint32_t>(runs.size()));
  for (const Run& run : runs) {
    writer.put(run.first);
    writer.put(run.last);
  }
}

void put_bits(Writer& writer, const std::vector<CacheId>& ids) {
  const uint32_t first_byte = (ids.front() - 1) / kBitsPerByte;
  std::vector<uint8_t> bits((ids.back() - 1) / kBitsPerByte - first_byte + 1);
  for (const CacheId id : ids) {
    bits[(id - 1) / kBitsPerByte - first_byte] |= static_cast<uint8_t>(1 << (id - 1) % kBitsPerByte);
  }
  writer.put(Form::kBits);
  writer.put(static_cast<uint16_t>(first_byte));
  writer.put(static_cast<uint32_t>(bits.size()));
  for (const uint8_t byte : bits) {
    writer.put(byte);
  }
}

void get_runs(Reader& reader, std::vector<CacheId>& ids) {
  const uint32_t count = reader.get_count(sizeof(Run));
  for (uint32_t i = 0; i < count && reader.is_intact(); ++i) {
    const CacheId first = 1 + CacheId{reader.get<uint16_t>()};
    const CacheId last = 1 + CacheId{reader.get<uint16_t>()};
    if (last < first || ids.size() + (last - first) >= kMaxCacheId) {
      reader.refuse();
      return;
    }
    for (CacheId id = first; id <= last; ++id) {
      ids.push_back(id);
    }
  }
}

void get_bits(Reader& reader, std::vector<CacheId>& ids) {
  const uint32_t first_byte = reader.get<uint16_t>();
  const uint32_t count = reader.get_count(1);
  if (first_byte + uint64_t{count} > kMaxCacheId / kBitsPerByte) {
    reader.refuse();
    return;
  }
  for (uint32_t byte = first_byte; byte < first_byte + count; ++byte) {
    const auto bits = reader.get<uint8_t>();
    for (uint32_t bit = 0; bit < kBitsPerByte; ++bit) {
      if ((bits >> bit & 1) != 0) {
        ids.push_back(1 + byte * kBitsPerByte + bit);
      }
    }
  }
}

}  // namespace

void put_cache_ids(Writer& writer, const std::vector<CacheId>& ids) {
  const std::vector<Run> runs = runs_of(ids);
  const size_t runs_bytes = runs.size() * sizeof(Run);
  const bool has_bits = !ids.empty() && is_ascending(ids);
  if (has_bits && (ids.back() - ids.front()) / kBitsPerByte + 2 + sizeof(uint16_t) < runs_bytes) {
    put_bits(writer, ids);
  } else {
    put_runs(writer, runs);
  }
}

std::vector<CacheId> get_cache_ids(Reader& reader) {
  std::vector<CacheId> ids;
  if (reader.get_enum<Form>(kFormCount) == Form::kRuns) {
    get_runs(reader, ids);
  } else {
    get_bits(reader, ids);
  }
  return ids;
}

}  // namespace ringtune
