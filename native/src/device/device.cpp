// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <string>
#include <utility>

namespace ringtune {

DeviceEvent::~DeviceEvent() { device_->put_back(event_); }

Status Device::open(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Device>& device) {
  if (ordinal < 0 || ordinal >= driver->device_count()) {
    return {StatusCode::kDeviceError, "there is no GPU " + std::to_string(ordinal) + "; this process sees " +
                                          std::to_string(driver->device_count())};
  }
  std::shared_ptr<Device> opened(new Device(std::move(driver), ordinal));
  const cuda::Functions& f = opened->driver();
  if (Status s = opened->check(f.cuDeviceGet(&opened->handle_, ordinal), "cuDeviceGet"); !s.ok()) return s;
  cuda::Context context = nullptr;
  if (Status s = opened->check(f.cuDevicePrimaryCtxRetain(&context, opened->handle_), "cuDevicePrimaryCtxRetain");
      !s.ok()) {
    return s;
  }
  opened->context_ = context;
  device = std::move(opened);
  return Status::ok_status();
}

// Results of calls here are ignored: after an error of a kernel, or at the process's end, all of them fail.
Device::~Device() {
  if (context_ == nullptr) {
    return;
  }
  {
    const Scope scope(*this);
    for (const cuda::Event event : free_events_) {
      driver().cuEventDestroy_v2(event);
    }
  }
  driver().cuDevicePrimaryCtxRelease_v2(handle_);
}

Status Device::check(cuda::Result result, const char* function) {
  if (Driver::is_sticky(result)) {
    is_lost_.store(true);
  }
  return driver_->status_of(result, function, ordinal_);
}

Status Device::get_uuid(std::array<uint8_t, 16>& uuid) {
  return check(driver().cuDeviceGetUuid_v2(uuid.data(), handle_), "cuDeviceGetUuid");
}

Status Device::has_memory_pools(bool& has_pools) {
  int value = 0;
  Status status = check(driver().cuDeviceGetAttribute(&value, cuda::kHasMemoryPools, handle_), "cuDeviceGetAttribute");
  has_pools = value != 0;
  return status;
}

Device::Scope::Scope(Device& device) : device_(device) {
  const cuda::Functions& f = device.driver();
  status_ = device.check(f.cuCtxPushCurrent_v2(device.context_), "cuCtxPushCurrent");
  if (!status_.ok()) {
    return;
  }
  status_ = device.check(f.cuThreadExchangeStreamCaptureMode(&capture_mode_), "cuThreadExchangeStreamCaptureMode");
  if (!status_.ok()) {
    cuda::Context popped = nullptr;
    f.cuCtxPopCurrent_v2(&popped);
  }
}

Device::Scope::~Scope() {
  if (!status_.ok()) {
    return;
  }
  const cuda::Functions& f = device_.driver();
  f.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  cuda::Context popped = nullptr;
  f.cuCtxPopCurrent_v2(&popped);
}

Status Device::make_stream(cuda::Stream& stream) {
  return check(driver().cuStreamCreate(&stream, cuda::kStreamNonBlocking), "cuStreamCreate");
}

void Device::destroy_stream(cuda::Stream stream) { driver().cuStreamDestroy_v2(stream); }

Status Device::is_idle(cuda::Stream stream, bool& is_idle) {
  const cuda::Result result = driver().cuStreamQuery(stream);
  is_idle = result == cuda::kSuccess;
  return result == cuda::kNotReady ? Status::ok_status() : check(result, "cuStreamQuery");
}

Status Device::is_capturing(cuda::Stream stream, bool& is_capturing) {
  int status = cuda::kCaptureStatusNone;
  const cuda::Result result = driver().cuStreamIsCapturing(stream, &status);
  // The default stream, asked while another stream is captured: the question alone is refused.
  is_capturing = status != cuda::kCaptureStatusNone || result == cuda::kStreamCaptureImplicit;
  return result == cuda::kStreamCaptureImplicit ? Status::ok_status() : check(result, "cuStreamIsCapturing");
}

Status Device::make_event(std::shared_ptr<DeviceEvent>& event) {
  cuda::Event raw = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      raw = free_events_.back();
      free_events_.pop_back();
    }
  }
  if (raw == nullptr) {
    if (Status s = check(driver().cuEventCreate(&raw, cuda::kEventDisableTiming), "cuEventCreate"); !s.ok()) return s;
  }
  event = std::make_shared<DeviceEvent>(shared_from_this(), raw);
  return Status::ok_status();
}

void Device::put_back(cuda::Event event) {
  const std::lock_guard lock(mutex_);
  free_events_.push_back(event);
}

Status Device::record(const DeviceEvent& event, cuda::Stream stream) {
  return check(driver().cuEventRecord(event.event(), stream), "cuEventRecord");
}

Status Device::wait_for(const DeviceEvent& event, cuda::Stream stream) {
  return check(driver().cuStreamWaitEvent(stream, event.event(), 0), "cuStreamWaitEvent");
}

Status Device::is_complete(const DeviceEvent& event, bool& is_complete) {
  const cuda::Result result = driver().cuEventQuery(event.event());
  is_complete = result == cuda::kSuccess;
  return result == cuda::kNotReady ? Status::ok_status() : check(result, "cuEventQuery");
}

Status Device::copy_to_host(std::byte* to, cuda::DevicePointer from, size_t bytes, cuda::Stream stream) {
  return check(driver().cuMemcpyDtoHAsync_v2(to, from, bytes, stream), "cuMemcpyDtoHAsync");
}

Status Device::copy_to_device(cuda::DevicePointer to, const std::byte* from, size_t bytes, cuda::Stream stream) {
  return check(driver().cuMemcpyHtoDAsync_v2(to, from, bytes, stream), "cuMemcpyHtoDAsync");
}

Status Device::copy_within(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream stream) {
  return check(driver().cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "cuMemcpyDtoDAsync");
}

Status Device::call_back(cuda::HostFunction function, void* argument, cuda::Stream stream) {
  return check(driver().cuLaunchHostFunc(stream, function, argument), "cuLaunchHostFunc");
}

Status Device::allocate_pinned(size_t bytes, std::byte*& memory) {
  void* allocated = nullptr;
  Status status = check(driver().cuMemHostAlloc(&allocated, bytes, cuda::kHostPortable), "cuMemHostAlloc");
  memory = static_cast<std::byte*>(allocated);
  return status;
}

void Device::free_pinned(std::byte* memory) { driver().cuMemFreeHost(memory); }

Status Device::pin(std::byte* memory, size_t bytes) {
  return check(driver().cuMemHostRegister_v2(memory, bytes, cuda::kHostPortable), "cuMemHostRegister");
}

void Device::unpin(std::byte* memory) { driver().cuMemHostUnregister(memory); }

Status Device::make_pool(uint64_t kept_bytes, cuda::MemoryPool& pool) {
  cuda::MemoryPoolProperties properties;
  properties.location_id = handle_;
  cuda::MemoryPool made = nullptr;
  if (Status s = check(driver().cuMemPoolCreate(&made, &properties), "cuMemPoolCreate"); !s.ok()) return s;
  Status status =
      check(driver().cuMemPoolSetAttribute(made, cuda::kReleaseThreshold, &kept_bytes), "cuMemPoolSetAttribute");
  if (status.ok()) {
    pool = made;
  } else {
    destroy_pool(made);
  }
  return status;
}

void Device::destroy_pool(cuda::MemoryPool pool) { driver().cuMemPoolDestroy(pool); }

Status Device::allocate(cuda::MemoryPool pool, size_t bytes, cuda::Stream stream, cuda::DevicePointer& memory) {
  return check(driver().cuMemAllocFromPoolAsync(&memory, bytes, pool, stream), "cuMemAllocFromPoolAsync");
}

Status Device::free(cuda::DevicePointer memory, cuda::Stream stream) {
  return check(driver().cuMemFreeAsync(memory, stream), "cuMemFreeAsync");
}

Status Device::load_module(const char* ptx, cuda::Module& module) {
  return check(driver().cuModuleLoadData(&module, ptx), "cuModuleLoadData");
}

void Device::unload_module(cuda::Module module) { driver().cuModuleUnload(module); }

Status Device::find_kernel(cuda::Module module, const char* name, cuda::Kernel& kernel) {
  return check(driver().cuModuleGetFunction(&kernel, module, name), "cuModuleGetFunction");
}

Status Device::launch(cuda::Kernel kernel, LaunchSize size, const void* parameter, cuda::Stream stream) {
  void* parameters[] = {const_cast<void*>(parameter)};
  return check(driver().cuLaunchKernel(kernel, size.blocks, 1, 1, size.threads, 1, 1, 0, stream, parameters, nullptr),
               "cuLaunchKernel");
}

}  // namespace ringtune
