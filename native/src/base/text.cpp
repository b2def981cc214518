// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <iomanip>
#include <sstream>

#include "base/clock.h"

namespace ringtune {

std::string format_seconds(int64_t ns) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << ns_to_seconds(ns) << " s";
  return text.str();
}

std::string format_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

std::string format_hex(uint64_t value) {
  std::ostringstream text;
  text << std::hex << value;
  return text.str();
}

}  // namespace ringtune
