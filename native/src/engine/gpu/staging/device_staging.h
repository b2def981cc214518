// SPDX-License-Identifier: Apache-2.0
// Tensors of GPUs on their way through the engine: a copy to the host when they are submitted, a copy back when their
// collective has run. In between they are tensors like all others.
//
// Whoever submits and whoever waits is never held up by a copy: streams wait for events, threads do not.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/gpu/device_stream.h"
#include "engine/gpu/staging/device_lane.h"
#include "engine/gpu/staging/staging_memory.h"
#include "engine/submissions/submission.h"
#include "transport/failure.h"
#include "transport/layout.h"

namespace ringtune {

struct StagedTensor {
  std::shared_ptr<DeviceLane> lane;
  std::shared_ptr<DeviceEvent> copied;  // the input is in the host's memory
  CopyToDevice result;                  // no bytes: the tensor has no result
  StagingBlock* block = nullptr;        // null once it is put back, and while the tensor stays on its GPU
  bool is_on_gpu = false;               // the submission names memory of the GPU, ready at `copied`
  int64_t begin_ns = 0;                 // when its copy to the host was asked for
};

// The driver has failed, which ends the world.
Failure device_failure(int rank, const Status& status);

class DeviceStaging {
 public:
  // Loads the driver at the first tensor. `notify` wakes the driving thread.
  DeviceStaging(std::string library, const Layout& layout, std::shared_ptr<Arena> arena, std::function<void()> notify);
  // Closed, or never used.
  ~DeviceStaging() = default;
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  // Any thread: no memory is freed while one of these is held.
  using Use = std::shared_lock<std::shared_mutex>;
  Use use() { return Use(use_mutex_); }
  // In a use: begins the copy of a tensor's input after all that the stream has been given, and lets the submission,
  // whose input and output are pointers of the device, name host memory. `is_kept`: the name comes again.
  Status take_in(const DeviceStream& caller, bool is_kept, Submission& submission);
  // In a use: the submission stays on its GPU, ready after all that the stream has been given.
  Status leave_on_gpu(const DeviceStream& caller, Submission& submission);
  // In a use: the stream waits until the event is complete; where none is given, the thread does.
  Status wait_for(const DeviceEvent& event, const DeviceStream& caller);
  // True if no copy from or to the operation's buffers is under way any more.
  bool is_drained(Handle handle);
  // A GPU cannot be used any more.
  bool is_lost();

  // Calls of the driving thread, which does the engine's work.

  // Tensors that have stayed on their GPU, and are to go through the host after all: copies them, and waits for that
  // as long as `watch` allows.
  Status stage(std::span<Submission> tensors, const std::function<Status()>& watch);
  // The operation's buffers are in use until then.
  void add_draining(Handle handle, std::shared_ptr<DeviceEvent> end);
  // Begins the copies back, and lets `done` be their end.
  Status copy_back(std::span<Submission> tensors);
  // In a use: the operation ends without a result; has no effect where one is under way, or the memory is gone.
  void let_go(Handle handle, StagedTensor& staged);

  // Waits some seconds for the copies under way. The memory of later ones is left behind, for the GPU may write to it.
  // Idempotent.
  void close();

 private:
  struct Draining {
    Handle handle;
    std::shared_ptr<DeviceEvent> end;
  };

  Status lane_of(int ordinal, std::shared_ptr<DeviceLane>& lane);
  // Begins a copy to the host, after another use of the memory there, where there is one.
  using CopyIn = std::function<Status(const CopyToHost& copy, const DeviceEvent* free_from)>;
  // Lets the submission, which names memory of the GPU, name host memory that its input is copied to. The GPU's context
  // is current.
  Status move_to_host(Submission& submission, StagedTensor& staged, bool is_kept, const CopyIn& copy_in);
  Status copy_back_to(DeviceLane& lane, std::span<Submission> tensors);
  static Status look_at(const DeviceEvent& event, bool& is_complete);
  static bool is_over(const DeviceEvent& event);
  void drain();
  bool is_idle();

  const std::string library_;
  const Layout& layout_;
  const std::function<void()> notify_;

  std::shared_mutex use_mutex_;  // held exclusively while everything is freed; taken before all below
  std::atomic<bool> is_closed_{false};

  std::mutex mutex_;  // guards the two below
  std::shared_ptr<const Driver> driver_;
  std::map<int, std::shared_ptr<DeviceLane>> lanes_;  // GPU's number to lane
  std::unique_ptr<StagingMemory> memory_;             // null once closed

  std::mutex draining_mutex_;  // guards draining_; no other is taken under it
  std::deque<Draining> draining_;
};

}  // namespace ringtune
