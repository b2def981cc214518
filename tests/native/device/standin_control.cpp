// SPDX-License-Identifier: Apache-2.0
// The tests' side of the stand-in.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "standin_machine.h"

using namespace standin;

extern "C" {

void standin_reset(const StandinSettings* settings) { machine().reset(*settings); }

void standin_set_devices(int devices) {
  const std::lock_guard lock(machine().mutex_);
  machine().settings_.devices = devices;
}

StandinCounts standin_counts() {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex_);
  StandinCounts counts{};
  for (const auto& [device, uses] : m.retained_) {
    counts.contexts += uses;
  }
  counts.streams = m.streams_.load();
  counts.events = m.events_.load();
  counts.registrations = static_cast<int>(m.registered_.size());
  counts.pinned_allocations = static_cast<int>(m.pinned_.size()) - counts.registrations;
  counts.pools = m.pools_.load();
  counts.pool_allocations = static_cast<int>(m.pooled_.size());
  counts.modules = static_cast<int>(m.modules_.size());
  counts.pushed_contexts = m.pushed_.load();
  counts.violations = m.violations_.load();
  counts.calls = m.calls_.load();
  return counts;
}

void standin_forget() {
  Machine& m = machine();
  for (Stream* stream : m.alive_streams()) {
    stream->synchronize();
  }
  const std::lock_guard lock(m.mutex_);
  m.retained_.clear();
  m.streams_.store(0);
  m.events_.store(0);
  m.registered_.clear();
  m.pinned_.clear();
  m.pools_.store(0);
  m.pooled_.clear();
  m.modules_.clear();
}

void standin_spoil_kernels() { machine().are_kernels_spoiled_.store(true); }

void standin_fail(const char* function, int nth, int result) {
  const std::lock_guard lock(machine().mutex_);
  machine().failures_[function] = {nth, result};
}

int standin_is_lost() { return machine().is_lost() ? 1 : 0; }

int standin_has_context(int device) {
  const std::lock_guard lock(machine().mutex_);
  return machine().retained_[device] > 0 ? 1 : 0;
}

uint64_t standin_allocate(int /*device*/, size_t bytes) {
  const auto memory = reinterpret_cast<uint64_t>(std::malloc(bytes == 0 ? 1 : bytes));
  const std::lock_guard lock(machine().mutex_);
  machine().device_memory_[memory] = bytes;
  return memory;
}

void standin_free(uint64_t memory) {
  {
    const std::lock_guard lock(machine().mutex_);
    machine().device_memory_.erase(memory);
  }
  std::free(reinterpret_cast<void*>(memory));
}

void standin_adopt(uint64_t memory, size_t bytes) {
  const std::lock_guard lock(machine().mutex_);
  size_t& known = machine().device_memory_[memory];
  known = std::max(known, bytes);
}

void* standin_make_stream(int device) { return machine().make_stream(device); }

void standin_destroy_stream(void* stream) { machine().destroy_stream(static_cast<Stream*>(stream)); }

void standin_work(void* stream, StandinWork work, void* argument, uint32_t delay_us) {
  machine().stream_of(stream)->add([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (work != nullptr) {
      work(argument);
    }
  });
}

void standin_copy(void* stream, uint64_t to, uint64_t from, size_t bytes, uint32_t delay_us) {
  machine().stream_of(stream)->add([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
}

void standin_fill(void* stream, uint64_t memory, int value, size_t bytes, uint32_t delay_us) {
  machine().stream_of(stream)->add([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    std::memset(reinterpret_cast<void*>(memory), value, bytes);
  });
}

void standin_synchronize(void* stream) { machine().stream_of(stream)->synchronize(); }

void standin_set_capturing(void* stream, int is_capturing) {
  machine().stream_of(stream)->is_capturing.store(is_capturing);
}

}  // extern "C"
