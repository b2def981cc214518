// SPDX-License-Identifier: Apache-2.0
// Log of the engine on stderr: rare lines, never in a hot loop.
#pragma once

#include <string>

namespace ringtune {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  Log(LogLevel threshold, int rank) : threshold_(threshold), rank_(rank) {}

  // One write call per line, so that lines of several ranks do not mix.
  void write(LogLevel level, const std::string& text) const;

 private:
  LogLevel threshold_;
  int rank_;
};

}  // namespace ringtune
