// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/device_lane.h"

#include <utility>

namespace ringtune {

Status DeviceLane::open(std::shared_ptr<const Driver> driver, int ordinal, std::function<void()> notify,
                        std::shared_ptr<DeviceLane>& lane) {
  std::shared_ptr<Device> device;
  if (Status s = Device::open(std::move(driver), ordinal, device); !s.ok()) return s;
  const std::shared_ptr<DeviceLane> opened(new DeviceLane(std::move(device), std::move(notify)));
  const Device::Scope scope(*opened->device_);
  if (!scope.status().ok()) return scope.status();
  if (Status s = opened->make_streams(); !s.ok()) return s;
  if (Status s = opened->device_->make_event(opened->ready_); !s.ok()) return s;
  lane = opened;
  return Status::ok_status();
}

DeviceLane::DeviceLane(std::shared_ptr<Device> device, std::function<void()> notify)
    : device_(std::move(device)), notifier_(std::make_unique<Notifier>()) {
  notifier_->notify = std::move(notify);
}

DeviceLane::~DeviceLane() {
  if (notifier_->is_under_way.load()) {
    // After an error the driver does not call it, or does so yet.
    [[maybe_unused]] Notifier* left_to_the_driver = notifier_.release();
  }
  const Device::Scope scope(*device_);
  for (const cuda::Stream stream : {to_host_, to_device_, notices_}) {
    if (stream != nullptr) {
      device_->destroy_stream(stream);
    }
  }
}

Status DeviceLane::make_streams() {
  for (cuda::Stream* stream : {&to_host_, &to_device_, &notices_}) {
    if (Status s = device_->make_stream(*stream); !s.ok()) return s;
  }
  return Status::ok_status();
}

Status DeviceLane::copy_to_host(const CopyToHost& copy, cuda::Stream caller, const DeviceEvent* free_from,
                                std::shared_ptr<DeviceEvent>& copied) {
  const std::lock_guard lock(mutex_);
  // One event serves all tensors: a stream waits for the work that the event stood for at the call.
  if (Status s = device_->record(*ready_, caller); !s.ok()) return s;
  return begin_copy_to_host(copy, *ready_, free_from, copied);
}

Status DeviceLane::copy_to_host_after(const CopyToHost& copy, const DeviceEvent& ready, const DeviceEvent* free_from,
                                      std::shared_ptr<DeviceEvent>& copied) {
  const std::lock_guard lock(mutex_);
  return begin_copy_to_host(copy, ready, free_from, copied);
}

Status DeviceLane::begin_copy_to_host(const CopyToHost& copy, const DeviceEvent& ready, const DeviceEvent* free_from,
                                      std::shared_ptr<DeviceEvent>& copied) {
  std::shared_ptr<DeviceEvent> end;
  if (Status s = device_->make_event(end); !s.ok()) return s;
  if (Status s = device_->wait_for(ready, to_host_); !s.ok()) return s;
  if (free_from != nullptr) {
    if (Status s = device_->wait_for(*free_from, to_host_); !s.ok()) return s;
  }
  if (copy.bytes > 0) {
    if (Status s = device_->copy_to_host(copy.to, copy.from, copy.bytes, to_host_); !s.ok()) return s;
  }
  if (Status s = device_->record(*end, to_host_); !s.ok()) return s;
  copied = std::move(end);
  return Status::ok_status();
}

Status DeviceLane::copy_to_device(std::span<const CopyToDevice> copies, std::shared_ptr<DeviceEvent>& copied) {
  std::shared_ptr<DeviceEvent> end;
  if (Status s = device_->make_event(end); !s.ok()) return s;
  for (const CopyToDevice& copy : copies) {
    if (copy.bytes > 0) {
      if (Status s = device_->copy_to_device(copy.to, copy.from, copy.bytes, to_device_); !s.ok()) return s;
    }
  }
  if (Status s = device_->record(*end, to_device_); !s.ok()) return s;
  copied = std::move(end);
  return Status::ok_status();
}

Status DeviceLane::notify_at(const DeviceEvent& event) {
  if (notifier_->is_under_way.exchange(true)) {
    return Status::ok_status();
  }
  Status status = device_->wait_for(event, notices_);
  if (status.ok()) {
    status = device_->call_back(&run_notifier, notifier_.get(), notices_);
  }
  if (!status.ok()) {
    notifier_->is_under_way.store(false);
  }
  return status;
}

void DeviceLane::run_notifier(void* notifier) {
  auto* self = static_cast<Notifier*>(notifier);
  const std::lock_guard lock(self->mutex);
  // First: whoever is notified may ask for the next call.
  self->is_under_way.store(false);
  if (self->notify) {
    self->notify();
  }
}

bool DeviceLane::is_idle() {
  const Device::Scope scope(*device_);
  bool is_idle = scope.status().ok();
  for (const cuda::Stream stream : {to_host_, to_device_, notices_}) {
    bool is_done = false;
    is_idle &= device_->is_idle(stream, is_done).ok() && is_done;
  }
  return is_idle || device_->is_lost();
}

void DeviceLane::mute() {
  const std::lock_guard lock(notifier_->mutex);
  notifier_->notify = nullptr;
}

}  // namespace ringtune
