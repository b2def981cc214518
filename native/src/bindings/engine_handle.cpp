// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine_handle.h"

#include <nanobind/nanobind.h>

#include "bindings/errors.h"

namespace nb = nanobind;

namespace ringtune {

EngineHandle::~EngineHandle() {
  if (door_ != nullptr && !is_forked_.load()) {
    const nb::gil_scoped_release unlocked;  // a thread that waits inside, and a callback, may need it
    shutdown();
    door_->close();
  }
  if (is_forked_.load()) {
    // Its threads and its shared memory exist in the parent only: no member may be destroyed here.
    [[maybe_unused]] Engine* left_to_the_parent = engine_.release();
  }
}

Engine& EngineHandle::engine() {
  if (is_forked_.load()) {
    throw StatusException({StatusCode::kForkedProcessError,
                           "this is a forked child (a data loader's worker?) of a rank; collectives may be called in"
                           " the rank's own process only"});
  }
  return *engine_;
}

RuntimeTuner& EngineHandle::tuner() {
  engine();
  if (is_shut_down_.load()) {
    throw StatusException({StatusCode::kShutDown, "the engine was shut down"});
  }
  return tuner_;
}

RingtuneDoor* EngineHandle::door() {
  engine();
  std::call_once(is_door_made_, [this] { door_ = new SubmissionDoor(*this); });
  return door_->address();
}

void EngineHandle::shutdown() {
  if (!is_forked_.load() && !is_shut_down_.exchange(true)) {
    engine_->shutdown();
  }
}

void EngineHandle::abandon_after_fork() {
  if (!is_forked_.exchange(true) && !is_shut_down_.load()) {
    engine_->abandon_after_fork();
  }
}

}  // namespace ringtune
