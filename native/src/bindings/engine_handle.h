// SPDX-License-Identifier: Apache-2.0
// The engine as Python holds it: alive, shut down, or abandoned in a forked child.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/submission_door.h"
#include "engine/engine.h"
#include "runtime_tuner/runtime_tuner.h"

namespace ringtune {

class EngineHandle {
 public:
  EngineHandle(std::shared_ptr<Segment> segment, EngineOptions options)
      : engine_(std::make_unique<Engine>(std::move(segment), std::move(options))), tuner_(*engine_) {}
  ~EngineHandle();
  EngineHandle(const EngineHandle&) = delete;
  EngineHandle& operator=(const EngineHandle&) = delete;

  // Throws StatusException in a forked child.
  Engine& engine();
  // Throws after shutdown too.
  RuntimeTuner& tuner();
  // The way in for compiled front ends.
  RingtuneDoor* door();

  // Engine::is_drained; true in a forked child, which touches no buffer.
  bool is_drained(Handle handle) { return is_forked_.load() || engine_->is_drained(handle); }

  void shutdown();
  void abandon_after_fork();

 private:
  std::unique_ptr<Engine> engine_;
  RuntimeTuner tuner_;
  std::atomic<bool> is_shut_down_{false};
  std::atomic<bool> is_forked_{false};
  std::once_flag is_door_made_;
  SubmissionDoor* door_ = nullptr;  // left behind on purpose; see there
};

}  // namespace ringtune
