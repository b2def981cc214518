// SPDX-License-Identifier: Apache-2.0
#include "wire/cache_ids.h"

#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

constexpr size_t kHeadBytes = 1 + 4;  // form, number of runs

Bytes encoded(const std::vector<CacheId>& ids) {
  Writer writer;
  put_cache_ids(writer, ids);
  return writer.release();
}

// No value where the frame is refused.
std::optional<std::vector<CacheId>> decoded(const Bytes& frame) {
  Reader reader(frame);
  std::vector<CacheId> ids = get_cache_ids(reader);
  return reader.is_at_end() ? std::optional(ids) : std::nullopt;
}

std::vector<CacheId> sequence(CacheId first, size_t count, CacheId stride) {
  std::vector<CacheId> ids(count);
  for (size_t i = 0; i < count; ++i) {
    ids[i] = first + static_cast<CacheId>(i) * stride;
  }
  return ids;
}

TEST(CacheIds, ListsSurviveTheRoundTripInTheirOrder) {
  const std::vector<std::vector<CacheId>> lists{{},
                                                {1},
                                                {kMaxCacheId},
                                                {1, kMaxCacheId},
                                                {7, 8, 9, 2, 3, 1},
                                                {9, 8, 7},
                                                {4, 4},
                                                {8, 9, 17},
                                                sequence(1, kMaxCacheId, 1),
                                                sequence(2, kMaxCacheId / 2, 2),
                                                sequence(65000, 100, 3)};

  for (const std::vector<CacheId>& ids : lists) {
    EXPECT_EQ(ids, decoded(encoded(ids))) << ids.size() << " ids";
  }
}

TEST(CacheIds, RandomSetsSurviveTheRoundTrip) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const unsigned density = 1 + random() % 20;
    std::vector<CacheId> ids;
    for (CacheId id = 1 + random() % 1000; id <= 3000; id += 1 + random() % density) {
      ids.push_back(id);
    }

    ASSERT_EQ(ids, decoded(encoded(ids)));
  }
}

TEST(CacheIds, AStepInItsOrderCostsFourBytes) { EXPECT_EQ(kHeadBytes + 4, encoded(sequence(100, 161, 1)).size()); }

TEST(CacheIds, EverySecondIdCostsABitOfEach) {
  EXPECT_EQ(kHeadBytes + 2 + 322 / 8 + 1, encoded(sequence(1, 161, 2)).size());
}

TEST(CacheIds, FewIdsFarApartCostFourBytesEach) { EXPECT_EQ(kHeadBytes + 3 * 4, encoded({1, 10'000, 60'000}).size()); }

Bytes frame_of_runs(const std::vector<std::pair<uint16_t, uint16_t>>& runs) {
  Writer writer;
  writer.put(uint8_t{0});
  writer.put(static_cast<uint32_t>(runs.size()));
  for (const auto& [first, last] : runs) {
    writer.put(first);
    writer.put(last);
  }
  return writer.release();
}

TEST(CacheIds, MoreThanThereCanBeIsRefused) { EXPECT_FALSE(decoded(frame_of_runs({{0, 0xffff}, {0, 0xffff}}))); }

TEST(CacheIds, ARunThatEndsBeforeItBeginsIsRefused) { EXPECT_FALSE(decoded(frame_of_runs({{5, 4}}))); }

TEST(CacheIds, BitsBeyondTheLastIdAreRefused) {
  Writer writer;
  writer.put(uint8_t{1});
  writer.put(uint16_t{kMaxCacheId / 8 - 1});
  writer.put(uint32_t{2});
  writer.put(uint8_t{1});
  writer.put(uint8_t{1});

  EXPECT_FALSE(decoded(writer.release()));
}

TEST(CacheIds, AnUnknownFormIsRefused) {
  Bytes frame = encoded(sequence(1, 100, 2));
  ASSERT_EQ(std::byte{1}, frame[0]);
  frame[0] = std::byte{2};

  EXPECT_FALSE(decoded(frame));
}

}  // namespace
}  // namespace ringtune
