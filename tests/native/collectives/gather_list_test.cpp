// SPDX-License-Identifier: Apache-2.0
#include "collectives/gather_list.h"

#include <random>
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

}  // namespace
}  // namespace ringtune
