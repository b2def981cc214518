// SPDX-License-Identifier: Apache-2.0
#include "device/device_memory.h"

#include <utility>

#include "base/config.h"

namespace ringtune {
namespace {

// Free memory that is kept for the next result; memory beyond that goes back to the GPU, where frameworks need it.
constexpr uint64_t kKeptBytes = 64 * kMiB;

}  // namespace

Status DeviceMemoryPool::open(std::shared_ptr<Device> device, std::shared_ptr<DeviceMemoryPool>& pool) {
  const std::shared_ptr<DeviceMemoryPool> opened(new DeviceMemoryPool(std::move(device)));
  const Device::Scope scope(*opened->device_);
  if (!scope.status().ok()) return scope.status();
  if (Status s = opened->device_->make_stream(opened->stream_); !s.ok()) return s;
  if (Status s = opened->device_->make_pool(kKeptBytes, opened->pool_); !s.ok()) return s;
  pool = opened;
  return Status::ok_status();
}

DeviceMemoryPool::~DeviceMemoryPool() {
  const Device::Scope scope(*device_);
  if (pool_ != nullptr) {
    device_->destroy_pool(pool_);
  }
  if (stream_ != nullptr) {
    device_->destroy_stream(stream_);
  }
}

Status DeviceMemoryPool::allocate(size_t bytes, cuda::Stream user, std::shared_ptr<DeviceMemory>& memory) {
  std::shared_ptr<DeviceEvent> allocated;
  if (Status s = device_->make_event(allocated); !s.ok()) return s;
  cuda::DevicePointer address = 0;
  if (Status s = device_->allocate(pool_, bytes, stream_, address); !s.ok()) return s;
  auto made = std::make_shared<DeviceMemory>(shared_from_this(), address, bytes);
  if (Status s = device_->record(*allocated, stream_); !s.ok()) return s;
  if (Status s = device_->wait_for(*allocated, user); !s.ok()) return s;
  memory = std::move(made);
  return Status::ok_status();
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) {
    return;
  }
  Device& device = *pool_->device_;
  const Device::Scope scope(device);
  const bool is_ordered = scope.status().ok() && (filled_ == nullptr || device.wait_for(*filled_, pool_->stream_).ok());
  // Memory that something may still write to is left to the driver.
  if (is_ordered || device.is_lost()) {
    [[maybe_unused]] const Status freed = device.free(address_, pool_->stream_);
  }
}

Status DeviceMemory::move_to(cuda::DevicePointer to, cuda::Stream stream) {
  Device& device = *pool_->device_;
  const Device::Scope scope(device);
  if (!scope.status().ok()) return scope.status();
  if (Status s = device.copy_within(to, address_, bytes_, stream); !s.ok()) return s;
  return device.free(std::exchange(address_, 0), stream);
}

}  // namespace ringtune
