// SPDX-License-Identifier: Apache-2.0
// One GPU as this process uses it: its primary context, which frameworks use too, with streams, events, copies between
// it and the host, kernels, and pinned host memory. No function waits for the GPU unless its comment says so.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "device/driver.h"

namespace ringtune {

class Device;

// A point in a stream's work. Made by `Device::make_event`; goes back to the device's pool.
class DeviceEvent {
 public:
  DeviceEvent(std::shared_ptr<Device> device, cuda::Event event) : device_(std::move(device)), event_(event) {}
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  Device& device() const { return *device_; }
  cuda::Event event() const { return event_; }

 private:
  const std::shared_ptr<Device> device_;
  const cuda::Event event_;
};

// Parts of a kernel's work, and of each part.
struct LaunchSize {
  unsigned blocks = 1;
  unsigned threads = 1;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  // Retains the primary context of the GPU with that number, and makes it where there is none yet.
  static Status open(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Device>& device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  // A number that no other GPU has, on any machine.
  Status get_uuid(std::array<uint8_t, 16>& uuid);
  // True if streams can allocate and free its memory.
  Status has_memory_pools(bool& has_pools);
  // True if a call has failed in a way after which every other fails as well. Any thread.
  bool is_lost() const { return is_lost_.load(); }

  // The context is the thread's current one as long as this lives; another thread's capture of a CUDA graph does not
  // forbid calls meanwhile. Every call below needs one; any thread.
  class Scope {
   public:
    explicit Scope(Device& device);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    const Status& status() const { return status_; }

   private:
    Device& device_;
    int capture_mode_ = cuda::kCaptureModeRelaxed;
    Status status_;
  };

  // A stream that does not wait for the default stream, nor makes it wait.
  Status make_stream(cuda::Stream& stream);
  void destroy_stream(cuda::Stream stream);
  // True if all work that the stream has been given is done.
  Status is_idle(cuda::Stream stream, bool& is_idle);
  // True if the stream's work becomes part of a CUDA graph instead of being done.
  Status is_capturing(cuda::Stream stream, bool& is_capturing);

  Status make_event(std::shared_ptr<DeviceEvent>& event);
  // The event stands for all that the stream has been given so far.
  Status record(const DeviceEvent& event, cuda::Stream stream);
  // The stream goes on once the work that the event stands for now is done. The event may be of another device.
  Status wait_for(const DeviceEvent& event, cuda::Stream stream);
  // True for an event that was never recorded.
  Status is_complete(const DeviceEvent& event, bool& is_complete);

  // The stream's next work; the host's memory must stay until it is done. Pageable memory makes the call wait.
  Status copy_to_host(std::byte* to, cuda::DevicePointer from, size_t bytes, cuda::Stream stream);
  Status copy_to_device(cuda::DevicePointer to, const std::byte* from, size_t bytes, cuda::Stream stream);
  Status copy_within(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream stream);
  // Calls the function on a thread of the driver, where it must not call the driver; not at all after an error.
  Status call_back(cuda::HostFunction function, void* argument, cuda::Stream stream);

  // Host memory that the GPU reads and writes by itself.
  Status allocate_pinned(size_t bytes, std::byte*& memory);
  void free_pinned(std::byte* memory);
  // The same for memory that is there already.
  Status pin(std::byte* memory, size_t bytes);
  void unpin(std::byte* memory);

  // A pool of the GPU's memory, which keeps up to `kept_bytes` that are free.
  Status make_pool(uint64_t kept_bytes, cuda::MemoryPool& pool);
  // Memory in use stays until it is freed.
  void destroy_pool(cuda::MemoryPool pool);
  // The stream's next work: the memory may be used after it, and until it is freed by a stream's next work.
  Status allocate(cuda::MemoryPool pool, size_t bytes, cuda::Stream stream, cuda::DevicePointer& memory);
  Status free(cuda::DevicePointer memory, cuda::Stream stream);

  // Kernels from PTX, which the driver compiles unless its cache has them. May wait for the GPU.
  Status load_module(const char* ptx, cuda::Module& module);
  // After all work that uses it.
  void unload_module(cuda::Module module);
  Status find_kernel(cuda::Module module, const char* name, cuda::Kernel& kernel);
  // The stream's next work, with one parameter, which is read before the call returns.
  Status launch(cuda::Kernel kernel, LaunchSize size, const void* parameter, cuda::Stream stream);

 private:
  friend class DeviceEvent;

  Device(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}

  const cuda::Functions& driver() const { return driver_->functions(); }
  Status check(cuda::Result result, const char* function);
  void put_back(cuda::Event event);

  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  cuda::Ordinal handle_ = 0;
  cuda::Context context_ = nullptr;
  std::atomic<bool> is_lost_{false};

  std::mutex mutex_;  // guards free_events_
  std::vector<cuda::Event> free_events_;
};

}  // namespace ringtune
