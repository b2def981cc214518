// SPDX-License-Identifier: Apache-2.0
#include "engine/progress_loop.h"

#include <algorithm>

#include <sched.h>

#include "base/clock.h"
#include "base/pause.h"

namespace ringtune {
namespace {

// While tensors come in, the communication thread looks this often by itself, and need not be woken for each batch. It
// stops some ticks after the last one. Where `cycle_ms` is shorter than a look is worth, it is woken.
constexpr int64_t kTickNs = kNsPerMs;
constexpr int64_t kMinTickNs = kNsPerMs / 2;
constexpr int64_t kQuietTicks = 3;
// Spins of a driver that waits: its peers answer within microseconds if they wait too; on busy cores they must get to
// run.
constexpr int kDriverSpins = 40;
constexpr int kDriverYields = 100;
// For the communication thread's short look.
constexpr int kTurnTries = 100;

}  // namespace

ProgressLoop::ProgressLoop(Transport& transport, Interruption& interruption, SubmissionQueue& queue, Progress& progress)
    : transport_(transport), interruption_(interruption), queue_(queue), progress_(progress) {}

void ProgressLoop::run() {
  while (!progress_.is_stopping()) {
    std::unique_lock turn(turn_);
    const uint32_t ticket = transport_.announce_wait(Sleeper::kThread);
    if (progress_.step() || progress_.is_stopping()) {
      transport_.cancel_wait(Sleeper::kThread);
      continue;
    }
    const int64_t sleep_ns = choose_sleep_ns();
    turn.unlock();
    transport_.wait(Sleeper::kThread, ticket, sleep_ns);
  }
  const std::lock_guard turn(turn_);
  progress_.fail_everything(
      {StatusCode::kShutDown, "the engine was shut down on this rank while the operation was pending"});
}

bool ProgressLoop::drive(const std::function<bool()>& is_done, int64_t limit_ns,
                         const Interruption::WantsOut& wants_out) {
  std::unique_lock<std::mutex> turn;
  if (!take_turn(turn)) {
    return false;
  }
  transport_.cancel_wait(Sleeper::kThread);  // it sleeps on: its events are the driver's now
  interruption_.set_caller(&wants_out);
  queue_.press();
  const auto is_over = [&] { return is_done() || progress_.is_stopping() || now_ns() >= limit_ns; };
  for (int idle_steps = 0; !is_over(); ++idle_steps) {
    const bool may_sleep = idle_steps >= kDriverSpins + kDriverYields;
    if (may_sleep ? step_or_sleep(is_over, limit_ns) : progress_.step()) {
      idle_steps = -1;
    } else if (may_sleep) {
      continue;
    } else if (idle_steps < kDriverSpins) {
      pause_briefly();
    } else {
      sched_yield();
    }
  }
  interruption_.set_caller(nullptr);
  hand_back();
  return true;
}

void ProgressLoop::in_turn(const std::function<void()>& something) {
  const std::lock_guard turn(turn_);
  transport_.cancel_wait(Sleeper::kThread);  // as in `drive`
  something();
  hand_back();
}

bool ProgressLoop::take_turn(std::unique_lock<std::mutex>& turn) {
  turn = std::unique_lock(turn_, std::try_to_lock);
  for (int i = 0; i < kTurnTries && !turn.owns_lock(); ++i) {
    pause_briefly();
    static_cast<void>(turn.try_lock());
  }
  return turn.owns_lock();
}

// Returns whether anything was done; if not, the driver has slept until an event.
bool ProgressLoop::step_or_sleep(const std::function<bool()>& is_over, int64_t limit_ns) {
  const uint32_t ticket = transport_.announce_wait(Sleeper::kDriver);
  const bool is_active = progress_.step();
  if (is_active || is_over()) {
    transport_.cancel_wait(Sleeper::kDriver);
    return is_active;
  }
  const int64_t left_ns = std::max<int64_t>(0, limit_ns - now_ns());
  const int64_t own_ns = progress_.wait_limit_ns();
  transport_.wait(Sleeper::kDriver, ticket, own_ns == kNoLimit ? left_ns : std::min(own_ns, left_ns));
  return false;
}

// Leaves the communication thread asleep if it will look by itself soon: mostly the caller is back before.
void ProgressLoop::hand_back() {
  if (is_ticking_) {
    return;
  }
  transport_.announce_wait(Sleeper::kThread);
  if (progress_.step() || progress_.is_stopping() || progress_.wait_limit_ns() != kNoLimit) {
    transport_.awaken(Sleeper::kThread);
  }
}

int64_t ProgressLoop::choose_sleep_ns() {
  const int64_t now = now_ns();
  if (const uint64_t pushed = queue_.pushed(); pushed != pushed_at_look_) {
    pushed_at_look_ = pushed;
    last_pushed_ns_ = now;
  }
  const int64_t tick_ns = std::min(kTickNs, queue_.cycle_ns());
  is_ticking_ = tick_ns >= kMinTickNs && now - last_pushed_ns_ < kQuietTicks * tick_ns;
  queue_.set_watched(is_ticking_);
  const int64_t limit_ns =
      progress_.wait_limit_ns();  // after `set_watched`: from here on the first tensor of a batch wakes
  if (!is_ticking_) {
    return limit_ns;
  }
  return limit_ns == kNoLimit ? tick_ns : std::min(limit_ns, tick_ns);
}

void ProgressLoop::stop() {
  progress_.stop();
  interruption_.shut_down();
  transport_.notify();
}

}  // namespace ringtune
