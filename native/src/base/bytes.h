// SPDX-License-Identifier: Apache-2.0
// Span types for raw memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ringtune {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;
using Bytes = std::vector<std::byte>;

}  // namespace ringtune
