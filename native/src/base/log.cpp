// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <array>
#include <string_view>

#include <unistd.h>

namespace ringtune {

void Log::write(LogLevel level, const std::string& text) const {
  if (level < threshold_) {
    return;
  }
  constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warning", "error"};
  const std::string line = "ringtune: " + std::string(kNames[static_cast<size_t>(level)]) + ": rank " +
                           std::to_string(rank_) + ": " + text + "\n";
  // A lost diagnostic (closed stderr, full disk) must not disturb training.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace ringtune
