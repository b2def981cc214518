// SPDX-License-Identifier: Apache-2.0
// One GPU's streams for the copies between its tensors and the host. Copies of one direction are done in the order in
// which they were asked for.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "device/device.h"

namespace ringtune {

// A copy to the host; no work where there are no bytes.
struct CopyToHost {
  cuda::DevicePointer from = 0;
  std::byte* to = nullptr;
  size_t bytes = 0;
};
struct CopyToDevice {
  const std::byte* from = nullptr;
  cuda::DevicePointer to = 0;
  size_t bytes = 0;
};

class DeviceLane {
 public:
  // `notify` is called on a thread of the driver.
  static Status open(std::shared_ptr<const Driver> driver, int ordinal, std::function<void()> notify,
                     std::shared_ptr<DeviceLane>& lane);
  // Requires that no copy is under way.
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }

  // Below: any thread, in a scope of the device.

  // After all that `caller` has been given so far, and after `free_from`, where there is one; `copied` is the copy's
  // end.
  Status copy_to_host(const CopyToHost& copy, cuda::Stream caller, const DeviceEvent* free_from,
                      std::shared_ptr<DeviceEvent>& copied);
  // The same after `ready`.
  Status copy_to_host_after(const CopyToHost& copy, const DeviceEvent& ready, const DeviceEvent* free_from,
                            std::shared_ptr<DeviceEvent>& copied);
  // `copied` is the end of all of them.
  Status copy_to_device(std::span<const CopyToDevice> copies, std::shared_ptr<DeviceEvent>& copied);
  // Notifies once the event is complete, or a little later: one call at a time is under way.
  Status notify_at(const DeviceEvent& event);

  // True if no copy is under way, or the GPU is lost, which ends all copies.
  bool is_idle();
  // Ends the notifications.
  void mute();

 private:
  struct Notifier {
    std::mutex mutex;  // guards notify, and is held while it is called
    std::function<void()> notify;
    std::atomic<bool> is_under_way{false};
  };

  DeviceLane(std::shared_ptr<Device> device, std::function<void()> notify);
  Status make_streams();
  Status begin_copy_to_host(const CopyToHost& copy, const DeviceEvent& ready, const DeviceEvent* free_from,
                            std::shared_ptr<DeviceEvent>& copied);
  static void run_notifier(void* notifier);

  const std::shared_ptr<Device> device_;
  cuda::Stream to_host_ = nullptr;
  cuda::Stream to_device_ = nullptr;
  cuda::Stream notices_ = nullptr;  // a copy would wait for a call that stands between two of them
  std::unique_ptr<Notifier> notifier_;

  std::mutex mutex_;  // guards the order of to_host_, and ready_
  std::shared_ptr<DeviceEvent> ready_;
};

}  // namespace ringtune
