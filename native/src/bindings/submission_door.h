// SPDX-License-Identifier: Apache-2.0
// An engine's side of the submission ABI.
#pragma once

#include <shared_mutex>

#include "base/status.h"
#include "bindings/submission_abi.h"

namespace ringtune {

class EngineHandle;

// Never destroyed, for a front end may keep its address in a graph: some bytes for each world that was joined stay.
class SubmissionDoor : private RingtuneDoor {
 public:
  explicit SubmissionDoor(EngineHandle& owner);
  SubmissionDoor(const SubmissionDoor&) = delete;
  SubmissionDoor& operator=(const SubmissionDoor&) = delete;

  RingtuneDoor* address() { return this; }
  // The engine is about to be destroyed; waits for calls that are inside.
  void close();

 private:
  static const RingtuneSubmissionTable kTable;

  static void submit(RingtuneDoor* door, const RingtuneRequest* request, RingtuneOnEnd on_end, void* context);
  static void mark_step(RingtuneDoor* door);
  static RingtuneWaited wait(RingtuneDoor* door, RingtuneIsDone is_done, void* context, int64_t timeout_ns);
  Status enter(const RingtuneRequest& request, RingtuneOnEnd on_end, void* context);

  // Guards owner_, and keeps it alive inside calls, which share it. The engine's locks and the GIL may be taken under
  // it, never the other way.
  std::shared_mutex mutex_;
  EngineHandle* owner_;  // null once closed
};

}  // namespace ringtune
