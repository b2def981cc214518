// SPDX-License-Identifier: Apache-2.0
// A stream of a GPU, as callers of the engine name it.
#pragma once

#include <cstdint>

namespace ringtune {

inline constexpr int kNoDevice = -1;

// A stream of a GPU, as frameworks number them; kNoDevice: the host.
struct DeviceStream {
  int device = kNoDevice;
  uint64_t stream = 0;
};

}  // namespace ringtune
