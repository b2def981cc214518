// SPDX-License-Identifier: Apache-2.0
#include "telemetry/step_recorder.h"

namespace ringtune {

void StepRecorder::add_gradient(uint64_t signature_hash, uint64_t bytes) {
  tensor_set_.fetch_add(signature_hash, std::memory_order_relaxed);
  gradient_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void StepRecorder::mark_step(int64_t now_ns, uint64_t config_epoch) {
  const uint64_t step = steps_.load(std::memory_order_relaxed);
  const StepFact fact{step, now_ns, gradient_bytes_.exchange(0, std::memory_order_relaxed),
                      tensor_set_.exchange(0, std::memory_order_relaxed), config_epoch};
  const uint64_t written = written_.load(std::memory_order_relaxed);
  if (written - read_.load(std::memory_order_acquire) < kCapacity) {
    facts_[written % kCapacity] = fact;
    written_.store(written + 1, std::memory_order_release);
  }
  steps_.store(step + 1, std::memory_order_release);
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

}  // namespace ringtune
