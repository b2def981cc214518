// SPDX-License-Identifier: Apache-2.0
// Request to leave a collective in which a peer does not move: by a caller at Ctrl-C, or by an engine's shutdown. A
// thread that waits for a peer asks; as long as bytes move, no thread is disturbed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace ringtune {

class Interruption {
 public:
  // Asks whether the caller that does the engine's work wants to leave. Called within a collective: it must not call
  // the engine.
  using WantsOut = std::function<bool()>;

  // The thread whose turn it is: the question to ask while it waits; null: none.
  void set_caller(const WantsOut* wants_out);
  // Any thread: the engine is shut down.
  void shut_down();

  // The thread whose turn it is, which has waited since then: whether it has waited long enough, of which a moment in
  // vain after somebody wanted to leave.
  bool is_due(int64_t waiting_since_ns);

 private:
  const WantsOut* wants_out_ = nullptr;
  int64_t last_look_ns_ = 0;
  int64_t caller_left_ns_ = 0;            // when the caller wanted to leave; 0: it does not
  std::atomic<int64_t> shut_down_ns_{0};  // likewise
};

}  // namespace ringtune
