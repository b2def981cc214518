// SPDX-License-Identifier: Apache-2.0
// Controls of the stand-in for the CUDA driver for tests, beside the driver's own functions. The library holds one
// machine for the whole process; a test resets it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct StandinSettings {
  int devices;
  uint64_t seed;          // seed of the delays
  uint32_t max_delay_us;  // before each piece of a stream's work; 0: none
  uint32_t can_register;  // 1 if memory that exists already can be pinned
  uint32_t can_allocate;  // 1 if pinned memory can be allocated
  uint32_t has_pools;     // 1 if streams can allocate a device's memory
};

// Objects that are alive now, without those that the test itself has made.
struct StandinCounts {
  int contexts;
  int streams;
  int events;
  int pinned_allocations;
  int registrations;
  int pools;
  int pool_allocations;
  int modules;
  int pushed_contexts;  // contexts pushed on all threads
  // Since the last reset.
  int violations;  // memory that was freed under a copy or a kernel, or a kernel that was, a call out of a host
                   // function or without a context
  uint64_t calls;
};

// Only while no object is alive. Also undoes all failures.
void standin_reset(const StandinSettings* settings);
void standin_set_devices(int devices);
StandinCounts standin_counts();
// Takes the objects alive now out of the counts: they were left behind on purpose.
void standin_forget();
// The `nth` call from now on (1: the next) of the function with that name fails with the result.
void standin_fail(const char* function, int nth, int result);
// Kernels write one wrong byte each, until the reset.
void standin_spoil_kernels();
// 1 after a failure that ended all work, the framework's too.
int standin_is_lost();
// 1 if the device with that number has a context.
int standin_has_context(int device);
// Memory of a device; the test's own, as a framework's would be.
uint64_t standin_allocate(int device, size_t bytes);
void standin_free(uint64_t memory);
// Memory of the test's own counts as a device's from now on.
void standin_adopt(uint64_t memory, size_t bytes);
// A stream of the framework, and work on it that takes a while and then fills memory with one value.
void* standin_make_stream(int device);
void standin_destroy_stream(void* stream);
typedef void (*StandinWork)(void* argument);
void standin_work(void* stream, StandinWork work, void* argument, uint32_t delay_us);
void standin_copy(void* stream, uint64_t to, uint64_t from, size_t bytes, uint32_t delay_us);
void standin_fill(void* stream, uint64_t memory, int value, size_t bytes, uint32_t delay_us);
void standin_synchronize(void* stream);
// Some blocks of a kernel at once, whatever memory its list names. The list is a `ringtune::PackList`.
void standin_run_blocks(const char* kernel, const void* list, uint32_t first, uint32_t end);
void standin_set_capturing(void* stream, int is_capturing);

}  // extern "C"
