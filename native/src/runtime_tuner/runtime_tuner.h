// SPDX-License-Identifier: Apache-2.0
// The mechanism of tuning: windows on the running job. The choice of configs and of their length is policy, and lives
// elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "runtime_tuner/window.h"
#include "runtime_tuner/window_builder.h"

namespace ringtune {

class RuntimeTuner {
 public:
  explicit RuntimeTuner(Engine& engine) : engine_(engine) {}

  // The tuning thread only. Steps that ended before this call do not count.
  void begin_window(const WindowSpec& spec);
  // The finished window, or no value after `timeout_ns`.
  std::optional<Window> next_window(int64_t timeout_ns);

 private:
  Engine& engine_;
  WindowBuilder builder_;
};

}  // namespace ringtune
