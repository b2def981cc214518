// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/device_wait.h"

#include <chrono>
#include <thread>

#include "base/clock.h"

namespace ringtune {
namespace {

// A small copy is through by then, and a sleep would take longer.
constexpr int64_t kSpinNs = kNsPerMs / 20;
constexpr std::chrono::microseconds kNap{50};

}  // namespace

Status await_event(const DeviceEvent& event, const std::function<Status()>& watch) {
  const Device::Scope scope(event.device());
  if (!scope.status().ok()) return scope.status();
  const int64_t begin_ns = now_ns();
  bool is_complete = false;
  while (true) {
    if (Status s = event.device().is_complete(event, is_complete); !s.ok() || is_complete) return s;
    if (Status s = watch(); !s.ok()) return s;
    if (now_ns() - begin_ns < kSpinNs) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

}  // namespace ringtune
