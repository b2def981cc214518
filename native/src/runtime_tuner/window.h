// SPDX-License-Identifier: Apache-2.0
// Consecutive steps measured under one config, and why a window may be void.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ringtune {

enum class VoidReason : uint8_t { kNone, kPause, kTensorSetChanged, kMixedEpochs, kNoGradients };

std::string_view void_reason_name(VoidReason reason);

struct WindowSpec {
  uint64_t epoch = 0;         // config epoch under which to measure
  uint64_t settle_steps = 0;  // dropped after the epoch came into force
  uint64_t steps = 1;         // to measure
  double limit_ms = 0;        // closes the window early, see `is_over_limit`; 0: never
};

struct Window {
  uint64_t epoch = 0;
  uint64_t last_step = 0;  // number of the step that closed it, since init
  std::vector<double> step_ms;
  uint64_t bytes_per_step = 0;  // mean size of gradients: sparse ones differ from step to step
  uint64_t tensor_set = 0;
  VoidReason void_reason = VoidReason::kNone;
  bool was_cut = false;
};

}  // namespace ringtune
