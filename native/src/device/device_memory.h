// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for results whose size was unknown when they were requested. The caller's framework allocates the
// memory of all others.
//
// Streams allocate and free it in their order; the host never waits.
#pragma once

#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace ringtune {

class DeviceMemory;

class DeviceMemoryPool : public std::enable_shared_from_this<DeviceMemoryPool> {
 public:
  static Status open(std::shared_ptr<Device> device, std::shared_ptr<DeviceMemoryPool>& pool);
  ~DeviceMemoryPool();
  DeviceMemoryPool(const DeviceMemoryPool&) = delete;
  DeviceMemoryPool& operator=(const DeviceMemoryPool&) = delete;

  // In a scope of the device: memory that the stream may use in all that it is given from now on. At least one byte.
  Status allocate(size_t bytes, cuda::Stream user, std::shared_ptr<DeviceMemory>& memory);

 private:
  friend class DeviceMemory;

  explicit DeviceMemoryPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  const std::shared_ptr<Device> device_;
  cuda::MemoryPool pool_ = nullptr;
  cuda::Stream stream_ = nullptr;  // allocates, and frees memory whose contents no caller took
};

class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<DeviceMemoryPool> pool, cuda::DevicePointer address, size_t bytes)
      : pool_(std::move(pool)), address_(address), bytes_(bytes) {}
  // Gives the memory back after the work that fills it, where no caller has taken its contents.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  size_t bytes() const { return bytes_; }
  // The event after which it is filled, or its user was aborted.
  void set_filled(std::shared_ptr<DeviceEvent> event) { filled_ = std::move(event); }
  // The stream's next work, once: copies the contents, which the stream has waited for, and gives the memory back.
  Status move_to(cuda::DevicePointer to, cuda::Stream stream);

 private:
  const std::shared_ptr<DeviceMemoryPool> pool_;
  cuda::DevicePointer address_;  // 0 once it is given back
  const size_t bytes_;
  std::shared_ptr<DeviceEvent> filled_;
};

}  // namespace ringtune
