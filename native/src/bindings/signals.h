// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and other signals, for callers that wait in the engine without the GIL.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace ringtune {

// A caller that waits looks for signals this often.
inline constexpr int64_t kSignalCheckNs = 100 * kNsPerMs;

// Looks for Ctrl-C within a collective. Handlers run later: they may call the engine, which is at work.
bool is_interrupted();
// Runs the handlers of signals that have come; true if one of them has raised, which this thread's Python knows then.
bool has_signal_raised();

}  // namespace ringtune
