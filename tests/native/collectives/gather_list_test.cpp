// SPDX-License-Identifier: Apache-2.0
#include "collectives/gather_list.h"

#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

TEST(GatherList, AnyRangeEqualsTheConcatenation) {
  std::mt19937 random(3);
  std::vector<Bytes> inputs;
  std::vector<Bytes> outputs;
  for (const size_t size : {1, 0, 64, 7, 300, 0, 5}) {
    inputs.emplace_back(size);
    outputs.emplace_back(size);
    for (std::byte& value : inputs.back()) {
      value = static_cast<std::byte>(random());
    }
  }
  GatherList list;
  Bytes concatenated;
  for (size_t i = 0; i < inputs.size(); ++i) {
    list.add(inputs[i].data(), outputs[i].data(), inputs[i].size());
    concatenated.insert(concatenated.end(), inputs[i].begin(), inputs[i].end());
  }
  ASSERT_EQ(concatenated.size(), list.bytes());

  for (size_t offset = 0; offset <= list.bytes(); ++offset) {
    for (size_t size = 0; size <= list.bytes() - offset; size += 1 + random() % 40) {
      Bytes range(size);
      list.copy_in(offset, range.data(), size);
      ASSERT_TRUE(std::equal(range.begin(), range.end(), concatenated.begin() + static_cast<long>(offset)));
      list.copy_out(offset, range.data(), size);
    }
  }
  list.copy_out(0, concatenated.data(), concatenated.size());

  EXPECT_EQ(inputs, outputs);
}

TEST(GatherList, TensorsThatFollowEachOtherInMemoryAreOnePiece) {
  Bytes memory(100);
  GatherList list;
  list.add(memory.data() + 60, memory.data() + 60, 10);
  list.add(memory.data() + 70, memory.data() + 70, 20);
  list.add(memory.data(), memory.data(), 30);
  std::vector<std::pair<ptrdiff_t, size_t>> pieces;

  list.for_pieces(5, 50, [&](const std::byte* /*input*/, std::byte* output, size_t /*done*/, size_t bytes) {
    pieces.emplace_back(output - memory.data(), bytes);
  });

  EXPECT_EQ((std::vector<std::pair<ptrdiff_t, size_t>>{{65, 25}, {0, 25}}), pieces);
}

}  // namespace
}  // namespace ringtune
