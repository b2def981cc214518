// SPDX-License-Identifier: Apache-2.0
// The sanitizers ask a program for these at its start. A test asks for more memory than any machine has: that fails
// here as it does without a sanitizer, by a null pointer. Memory that a GPU may still touch is left behind on purpose:
// with a kernel that hangs, and with a call that the driver owes after an error.

extern "C" const char* __asan_default_options();
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __tsan_default_options();

extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __lsan_default_suppressions() {
  return "leak:ringtune::DeviceLane::DeviceLane\nleak:ringtune::DeviceStaging::close\n"
         "leak:ringtune::DeviceStaging::DeviceStaging\n";
}
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
