// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ringtune::testing {

// Another value of a knob, for tests that walk over the table.
inline bool other_value(bool value) { return !value; }
inline std::string other_value(const std::string& value) { return value + "x"; }
inline uint64_t other_value(uint64_t value) { return value + 1; }
inline double other_value(double value) { return value * 1.0000001; }

}  // namespace ringtune::testing
