// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1: the functions that ringtune calls, with host memory for a GPU's. Each stream is a queue
// with a thread, which takes a random while for each piece of work. It counts live objects and breaches of the driver's
// rules, and fails on demand.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "standin_machine.h"

using namespace standin;

namespace {

std::byte* device_bytes(uint64_t memory) { return reinterpret_cast<std::byte*>(memory); }

}  // namespace

#define BEGIN(...)                                                    \
  if (const int result = machine().begin(__VA_ARGS__); result != 0) { \
    return result;                                                    \
  }

extern "C" {

int cuInit(unsigned) {
  BEGIN("cuInit", false)
  return kSuccess;
}

int cuGetErrorName(int result, const char** name) {
  *name = result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_STANDIN";
  return kSuccess;
}

int cuGetErrorString(int, const char** text) {
  *text = "an error that the test asked for";
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  BEGIN("cuDeviceGetCount", false)
  *count = machine().settings_.devices;
  return kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  BEGIN("cuDeviceGet", false)
  *device = ordinal;
  return kSuccess;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  BEGIN("cuDeviceGetUuid", false)
  std::memset(uuid, 0, 16);
  uuid[0] = static_cast<unsigned char>(device + 1);
  return kSuccess;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  BEGIN("cuDeviceGetAttribute", false)
  *value = attribute == kHasMemoryPools ? static_cast<int>(machine().settings_.has_pools) : 0;
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  BEGIN("cuDevicePrimaryCtxRetain", false)
  const std::lock_guard lock(machine().mutex_);
  ++machine().retained_[device];
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1);
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  const int result = machine().begin("cuDevicePrimaryCtxRelease", false);
  const std::lock_guard lock(machine().mutex_);
  --machine().retained_[device];
  return result;
}

int cuCtxPushCurrent_v2(void* context) {
  const int result = machine().begin("cuCtxPushCurrent", false);
  is_refused = result != kSuccess;
  if (is_refused) {
    return result;
  }
  pushed.push_back(static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1);
  machine().pushed_.fetch_add(1);
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** context) {
  const int result = machine().begin("cuCtxPopCurrent");
  if (pushed.empty()) {
    return kInvalidContext;
  }
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(pushed.back()) + 1);
  pushed.pop_back();
  machine().pushed_.fetch_sub(1);
  return result;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  const int result = machine().begin("cuThreadExchangeStreamCaptureMode");
  is_refused = result != kSuccess;
  if (is_refused) {
    return result;
  }
  std::swap(*mode, capture_mode);
  return kSuccess;
}

int cuStreamCreate(void** stream, unsigned) {
  BEGIN("cuStreamCreate")
  machine().streams_.fetch_add(1);
  *stream = machine().make_stream(pushed.back());
  return kSuccess;
}

int cuStreamDestroy_v2(void* stream) {
  const int result = machine().begin("cuStreamDestroy");
  machine().streams_.fetch_sub(1);
  machine().destroy_stream(static_cast<Stream*>(stream));
  return result;
}

int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  BEGIN("cuStreamWaitEvent")
  std::shared_ptr<Moment> moment;
  {
    const std::lock_guard lock(machine().mutex_);
    moment = static_cast<Event*>(event)->moment;
  }
  if (machine().stream_of(stream)->is_capturing.load() != 0) {
    machine().add_violation();  // the user's capture is spoiled
    return kCaptureIsolation;
  }
  if (moment != nullptr) {
    machine().stream_of(stream)->add([moment] { machine().wait_for(*moment); });
  }
  return kSuccess;
}

int cuStreamQuery(void* stream) {
  BEGIN("cuStreamQuery")
  return machine().stream_of(stream)->is_idle() ? kSuccess : kNotReady;
}

int cuStreamIsCapturing(void* stream, int* status) {
  BEGIN("cuStreamIsCapturing")
  *status = machine().stream_of(stream)->is_capturing.load();
  return kSuccess;
}

int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  BEGIN("cuLaunchHostFunc")
  machine().stream_of(stream)->add([function, argument] {
    is_in_host_function = true;
    function(argument);
    is_in_host_function = false;
  });
  return kSuccess;
}

int cuEventCreate(void** event, unsigned) {
  BEGIN("cuEventCreate")
  machine().events_.fetch_add(1);
  *event = new Event();
  return kSuccess;
}

int cuEventDestroy_v2(void* event) {
  const int result = machine().begin("cuEventDestroy");
  machine().events_.fetch_sub(1);
  delete static_cast<Event*>(event);
  return result;
}

int cuEventRecord(void* event, void* stream) {
  BEGIN("cuEventRecord")
  auto moment = std::make_shared<Moment>();
  {
    const std::lock_guard lock(machine().mutex_);
    static_cast<Event*>(event)->moment = moment;
  }
  machine().stream_of(stream)->add([moment] { machine().end(*moment); });
  return kSuccess;
}

int cuEventQuery(void* event) {
  BEGIN("cuEventQuery")
  const std::lock_guard lock(machine().mutex_);
  const std::shared_ptr<Moment> moment = static_cast<Event*>(event)->moment;
  return moment == nullptr || moment->is_over.load() ? kSuccess : kNotReady;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN("cuMemHostAlloc")
  const std::lock_guard lock(machine().mutex_);
  if (machine().settings_.can_allocate == 0) {
    return kOutOfMemory;
  }
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  machine().pinned_[static_cast<std::byte*>(*memory)] = bytes;
  return kSuccess;
}

int cuMemFreeHost(void* memory) {
  const int result = machine().begin("cuMemFreeHost");
  const std::lock_guard lock(machine().mutex_);
  if (machine().pinned_.erase(static_cast<std::byte*>(memory)) == 0) {
    machine().add_violation();
    return kInvalidValue;
  }
  std::free(memory);
  return result;
}

int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned) {
  BEGIN("cuMemHostRegister")
  const std::lock_guard lock(machine().mutex_);
  if (machine().settings_.can_register == 0) {
    return kNotSupported;
  }
  machine().pinned_[static_cast<std::byte*>(memory)] = bytes;
  machine().registered_.insert(memory);
  return kSuccess;
}

int cuMemHostUnregister(void* memory) {
  const int result = machine().begin("cuMemHostUnregister");
  const std::lock_guard lock(machine().mutex_);
  if (machine().registered_.erase(memory) == 0) {
    machine().add_violation();
    return kInvalidValue;
  }
  machine().pinned_.erase(static_cast<std::byte*>(memory));
  return result;
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  BEGIN("cuMemcpyDtoHAsync")
  if (!machine().is_on_device(from, bytes)) {
    return kInvalidValue;
  }
  const bool is_pinned = machine().is_pinned(to, bytes);
  Stream* const queue = machine().stream_of(stream);
  queue->add([=] {
    if (!machine().is_on_device(from, bytes) || machine().is_pinned(to, bytes) != is_pinned) {
      machine().add_violation();
      return;
    }
    std::memcpy(to, device_bytes(from), bytes);
  });
  if (!is_pinned) {
    queue->synchronize();
  }
  return kSuccess;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  BEGIN("cuMemcpyHtoDAsync")
  if (!machine().is_on_device(to, bytes)) {
    return kInvalidValue;
  }
  const bool is_pinned = machine().is_pinned(from, bytes);
  Stream* const queue = machine().stream_of(stream);
  queue->add([=] {
    if (!machine().is_on_device(to, bytes) || machine().is_pinned(from, bytes) != is_pinned) {
      machine().add_violation();
      return;
    }
    std::memcpy(device_bytes(to), from, bytes);
  });
  if (!is_pinned) {
    queue->synchronize();
  }
  return kSuccess;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  BEGIN("cuMemcpyDtoDAsync")
  if (!machine().is_on_device(to, bytes) || !machine().is_on_device(from, bytes)) {
    return kInvalidValue;
  }
  machine().stream_of(stream)->add([=] {
    if (!machine().is_on_device(to, bytes) || !machine().is_on_device(from, bytes)) {
      machine().add_violation();
      return;
    }
    std::memcpy(device_bytes(to), device_bytes(from), bytes);
  });
  return kSuccess;
}

int cuMemPoolCreate(void** pool, const void*) {
  BEGIN("cuMemPoolCreate")
  machine().pools_.fetch_add(1);
  *pool = new int(0);
  return kSuccess;
}

int cuMemPoolDestroy(void* pool) {
  const int result = machine().begin("cuMemPoolDestroy");
  machine().pools_.fetch_sub(1);
  delete static_cast<int*>(pool);
  return result;
}

int cuMemPoolSetAttribute(void*, int, void*) {
  BEGIN("cuMemPoolSetAttribute")
  return kSuccess;
}

// The memory is there at once, poisoned by the stream's work: a caller that does not wait for the stream loses its
// writes.
int cuMemAllocFromPoolAsync(uint64_t* memory, size_t bytes, void*, void* stream) {
  BEGIN("cuMemAllocFromPoolAsync")
  const uint64_t allocated = standin_allocate(0, bytes);
  {
    const std::lock_guard lock(machine().mutex_);
    machine().pooled_.insert(allocated);
  }
  machine().stream_of(stream)->add([=] { std::memset(device_bytes(allocated), 0xa5, bytes); });
  *memory = allocated;
  return kSuccess;
}

// Poisoned in the stream's order, and free for other users from then on.
int cuMemFreeAsync(uint64_t memory, void* stream) {
  const int result = machine().begin("cuMemFreeAsync");
  {
    const std::lock_guard lock(machine().mutex_);
    if (machine().pooled_.erase(memory) == 0) {
      machine().add_violation();
      return kInvalidValue;
    }
  }
  if (machine().is_lost()) {
    standin_free(memory);
  } else {
    machine().stream_of(stream)->add([=] { standin_free(memory); });
  }
  return result;
}

}  // extern "C"
