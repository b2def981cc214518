// SPDX-License-Identifier: Apache-2.0
// A caller that waits does the engine's work itself, without the GIL.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <torch/csrc/utils/pybind.h>

#include "bindings/submission_abi.h"

namespace ringtune_torch {

using Seconds = std::chrono::duration<double>;

inline constexpr Seconds kSignalCheck{0.1};

// Waits beside another thread that does the engine's work; notices Ctrl-C.
template <typename HasEnded>
void wait_beside(Seconds limit, std::mutex& mutex, std::condition_variable& ended, HasEnded& has_ended) {
  {
    std::unique_lock lock(mutex);
    if (ended.wait_for(lock, limit, [&has_ended] { return has_ended(); })) {
      return;
    }
  }
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

// Does the engine's work until `has_ended()`, or for `limit` at most; returns false where the time is up. The thread
// does not have the GIL. `ended` is notified, under `mutex`, of an end that another thread brings about.
template <typename HasEnded>
bool drive(RingtuneDoor* door, Seconds limit, std::mutex& mutex, std::condition_variable& ended, HasEnded has_ended) {
  const auto until = std::chrono::steady_clock::now() + limit;
  const RingtuneIsDone is_done = [](void* context) { return (*static_cast<HasEnded*>(context))() ? 1 : 0; };
  while (!has_ended()) {
    const Seconds left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      return false;
    }
    const auto left_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const RingtuneWaited waited = door->table->wait(door, is_done, &has_ended, left_ns);
    if (waited == kRingtuneBusy) {
      wait_beside(std::min(left, kSignalCheck), mutex, ended, has_ended);
    }
    if (waited == kRingtuneRaised) {
      const py::gil_scoped_acquire locked;
      throw py::error_already_set();
    }
  }
  return true;
}

}  // namespace ringtune_torch
