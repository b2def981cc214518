// SPDX-License-Identifier: Apache-2.0
// Bounds-checked encoding of scalars and strings, little-endian as on both supported architectures.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/bytes.h"

namespace ringtune {

class Writer {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }

  void put_string(std::string_view text);

  Bytes release() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Never reads past the frame: after the first short read every value is zero and `is_intact` is false.
class Reader {
 public:
  explicit Reader(ByteSpan frame) : frame_(frame) {}

  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    T value{};
    if (take(sizeof(T))) {
      std::memcpy(&value, frame_.data() + at_ - sizeof(T), sizeof(T));
    }
    return value;
  }

  // An enum with `count` values; anything else breaks the frame.
  template <typename T>
  T get_enum(int count) {
    const auto raw = get<uint8_t>();
    if (raw >= count) {
      is_intact_ = false;
      return T{};
    }
    return static_cast<T>(raw);
  }

  std::string get_string();

  // A count of things that take at least `min_bytes` each: refuses counts that the rest of the frame cannot hold.
  uint32_t get_count(size_t min_bytes);

  // The values make no sense: the frame is broken.
  void refuse() { is_intact_ = false; }
  bool is_intact() const { return is_intact_; }
  bool is_at_end() const { return is_intact_ && at_ == frame_.size(); }

 private:
  bool take(size_t bytes);

  ByteSpan frame_;
  size_t at_ = 0;
  bool is_intact_ = true;
};

}  // namespace ringtune
