// SPDX-License-Identifier: Apache-2.0
// What a caller hands to the engine: a named tensor and what to do with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/messages.h"

namespace ringtune {

using Handle = uint64_t;

struct Submission {
  Handle handle = 0;
  std::string name;
  Signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

}  // namespace ringtune
