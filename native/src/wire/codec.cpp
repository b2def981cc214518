// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.h"

namespace ringtune {

void Writer::put_string(std::string_view text) {
  put(static_cast<uint32_t>(text.size()));
  const size_t at = bytes_.size();
  bytes_.resize(at + text.size());
  if (!text.empty()) {
    std::memcpy(bytes_.data() + at, text.data(), text.size());
  }
}

bool Reader::take(size_t bytes) {
  if (!is_intact_ || bytes > frame_.size() - at_) {
    is_intact_ = false;
    return false;
  }
  at_ += bytes;
  return true;
}

std::string Reader::get_string() {
  const auto size = get<uint32_t>();
  if (!take(size)) {
    return {};
  }
  return {reinterpret_cast<const char*>(frame_.data()) + at_ - size, size};
}

uint32_t Reader::get_count(size_t min_bytes) {
  const auto count = get<uint32_t>();
  if (!is_intact_ || count > (frame_.size() - at_) / min_bytes) {
    is_intact_ = false;
    return 0;
  }
  return count;
}

}  // namespace ringtune
