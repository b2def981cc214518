// SPDX-License-Identifier: Apache-2.0
#include "transport/interruption.h"

#include <algorithm>

#include "base/clock.h"

namespace ringtune {
namespace {

// Interval of the questions to a waiting caller, also before the first: a question may itself wait, for the
// interpreter.
constexpr int64_t kLookNs = 100 * kNsPerMs;
// Wait for peers after Ctrl-C: short, as a person waits at the terminal; a peer that lives is back within this.
constexpr int64_t kCallerGraceNs = kNsPerS;
// Wait for peers at shutdown: longer, as no person waits, and peers lose the rank afterwards.
constexpr int64_t kShutDownGraceNs = 3 * kNsPerS;

}  // namespace

void Interruption::set_caller(const WantsOut* wants_out) {
  wants_out_ = wants_out;
  caller_left_ns_ = 0;
}

void Interruption::shut_down() { shut_down_ns_.store(now_ns()); }

bool Interruption::is_due(int64_t waiting_since_ns) {
  const int64_t now = now_ns();
  const bool is_look_due = now - std::max(waiting_since_ns, last_look_ns_) >= kLookNs;
  if (wants_out_ != nullptr && caller_left_ns_ == 0 && is_look_due) {
    last_look_ns_ = now;
    caller_left_ns_ = (*wants_out_)() ? now : 0;
  }
  const auto is_over = [&](int64_t left_ns, int64_t grace_ns) {
    return left_ns != 0 && now - std::max(left_ns, waiting_since_ns) >= grace_ns;
  };
  return is_over(caller_left_ns_, kCallerGraceNs) || is_over(shut_down_ns_.load(), kShutDownGraceNs);
}

}  // namespace ringtune
