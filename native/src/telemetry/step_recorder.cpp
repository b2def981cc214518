// SPDX-License-Identifier: Apache-2.0
#include "telemetry/step_recorder.h"

namespace ringtune {

void StepRecorder::add_gradient(uint64_t signature_hash, uint64_t bytes) {
  tensor_set_.fetch_add(signature_hash, std::memory_order_relaxed);
  gradient_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

uint64_t StepRecorder::put(int64_t end_ns, uint64_t config_epoch) {
  const uint64_t step = steps_.load(std::memory_order_relaxed);
  const StepFact fact{step, end_ns, gradient_bytes_.exchange(0, std::memory_order_relaxed),
                      tensor_set_.exchange(0, std::memory_order_relaxed), config_epoch};
  if (marked_ - read_.load(std::memory_order_acquire) < kCapacity) {
    facts_[marked_ % kCapacity] = fact;
    ++marked_;
  }
  steps_.store(step + 1, std::memory_order_release);
  return step;
}

uint64_t StepRecorder::mark_step(int64_t now_ns, uint64_t config_epoch) {
  marked_ = written_.load(std::memory_order_relaxed);
  const uint64_t step = put(now_ns, config_epoch);
  written_.store(marked_, std::memory_order_release);
  return step;
}

uint64_t StepRecorder::mark_device_step(uint64_t config_epoch) { return put(0, config_epoch); }

void StepRecorder::time_device_step(uint64_t step, int64_t end_ns) {
  const uint64_t written = written_.load(std::memory_order_relaxed);
  uint64_t found = written;
  while (found != marked_ && facts_[found % kCapacity].step < step) ++found;
  if (found == marked_ || facts_[found % kCapacity].step != step) return;  // it was dropped
  if (found != written) {
    for (uint64_t to = written, from = found; from != marked_; ++to, ++from) {
      facts_[to % kCapacity] = facts_[from % kCapacity];
    }
    marked_ -= found - written;
  }
  facts_[written % kCapacity].end_ns = end_ns;
  written_.store(written + 1, std::memory_order_release);
}

bool StepRecorder::take(StepFact& fact) {
  const uint64_t read = read_.load(std::memory_order_relaxed);
  if (read == written_.load(std::memory_order_acquire)) {
    return false;
  }
  fact = facts_[read % kCapacity];
  read_.store(read + 1, std::memory_order_release);
  return true;
}

uint64_t StepRecorder::steps_since_meeting() const { return steps() - met_at_step_.load(std::memory_order_acquire); }

void StepRecorder::announce(bool is_tuning_finished, uint64_t from_step) {
  const std::lock_guard lock(mutex_);
  announced_.push_back({is_tuning_finished, from_step});
}

void StepRecorder::meet() {
  const std::lock_guard lock(mutex_);
  if (!announced_.empty()) {
    is_tuning_finished_ = announced_.back().is_tuning_finished;
    announced_.clear();
  }
  met_at_step_.store(steps(), std::memory_order_release);
}

bool StepRecorder::is_tuning_finished() const {
  const std::lock_guard lock(mutex_);
  while (!announced_.empty() && announced_.front().from_step <= steps_since_meeting()) {
    is_tuning_finished_ = announced_.front().is_tuning_finished;
    announced_.pop_front();
  }
  return is_tuning_finished_;
}

}  // namespace ringtune
