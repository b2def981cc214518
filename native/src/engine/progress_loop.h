// SPDX-License-Identifier: Apache-2.0
// Loop that does the engine's work and waits for more.
//
// One thread at a time does it, in its *turn*: the communication thread, or a caller that waits for an operation, in
// its place (a *driver*). To hand a small allreduce over to another thread and back costs ten times the allreduce.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "engine/progress.h"
#include "engine/submissions/submission_queue.h"
#include "transport/interruption.h"
#include "transport/transport.h"

namespace ringtune {

class ProgressLoop {
 public:
  ProgressLoop(Transport& transport, Interruption& interruption, SubmissionQueue& queue, Progress& progress);

  // The communication thread: until `stop`, then fails all pending operations with `kShutDown`.
  void run();
  void stop();
  // A caller that waits: does the work until `is_done()`, or until `limit_ns` on the steady clock. Tensors submitted so
  // far go at once. A collective that is stuck may outlast the limit, unless the caller wants to leave. False, without
  // anything done, if it is another thread's turn.
  bool drive(const std::function<bool()>& is_done, int64_t limit_ns, const Interruption::WantsOut& wants_out);
  // Does something else in place of the work, once it is nobody's turn.
  void in_turn(const std::function<void()>& something);

 private:
  bool take_turn(std::unique_lock<std::mutex>& turn);
  bool step_or_sleep(const std::function<bool()>& is_over, int64_t limit_ns);
  void hand_back();
  int64_t choose_sleep_ns();

  Transport& transport_;
  Interruption& interruption_;
  SubmissionQueue& queue_;

  // Guards all below. Held while the work is done, collectives included, not while the communication thread sleeps
  // between two looks.
  std::mutex turn_;
  Progress& progress_;
  bool is_ticking_ = false;      // the communication thread looks again within a tick
  uint64_t pushed_at_look_ = 0;  // submissions at its last look
  int64_t last_pushed_ns_ = 0;   // when it last saw a new one
};

}  // namespace ringtune
