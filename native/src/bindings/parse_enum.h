// SPDX-License-Identifier: Apache-2.0
// Python gives enumerations as numbers.
#pragma once

#include <string>

#include "base/dtype.h"
#include "bindings/errors.h"

namespace ringtune {

template <typename Enum>
Enum parse_enum(int value, int count, const char* what) {
  if (value < 0 || value >= count) {
    throw StatusException({StatusCode::kConfigError, std::string(what) + " number " + std::to_string(value) +
                                                         " is outside 0 ... " + std::to_string(count - 1)});
  }
  return static_cast<Enum>(value);
}

inline DataType parse_dtype(int value) { return parse_enum<DataType>(value, kDataTypeCount, "dtype"); }

}  // namespace ringtune
