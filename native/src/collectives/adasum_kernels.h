// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace ringtune {

// own = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b, where a and b are `own` and `peer`, in an order that both
// ranks of a pair must agree on. The dot products are taken in double; a zero vector leaves the other as it is. `dtype`
// is float32 or float64. The vectors do not overlap.
void adasum_combine(DataType dtype, std::byte* own, const std::byte* peer, bool is_own_first, size_t elements);

}  // namespace ringtune
