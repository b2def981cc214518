// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/device_staging.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "collectives/reducescatter.h"
#include "engine/gpu/staging/device_wait.h"
#include "transport/shm/atomics.h"

namespace ringtune {
namespace {

// Longest wait of the engine's end for copies, which themselves may wait for a kernel of the user's.
constexpr int64_t kCloseNs = 3 * kNsPerS;
constexpr std::chrono::microseconds kLookEvery{50};

// Input of a rank, and output where its size is known before.
bool has_input(const Signature& signature, int rank) {
  return signature.kind != OpKind::kBroadcast || signature.root_rank == rank;
}

size_t result_bytes(const Submission& submission, const Layout& layout) {
  const Signature& signature = submission.signature;
  if (is_ragged(signature.kind)) {
    return submission.offered_bytes;
  }
  if (signature.kind != OpKind::kReducescatter || signature.bytes() == 0) {
    return signature.bytes();
  }
  const int64_t rows = signature.shape.front();
  const size_t row_bytes = signature.bytes() / static_cast<size_t>(rows);
  return static_cast<size_t>(rows_of_rank(rows, layout.rank(), layout.world_size())) * row_bytes;
}

// Rows do not arrive where other rows are sent from: an output that the caller offers has a place behind the input.
size_t output_offset_of(const Submission& submission) {
  return is_ragged(submission.signature.kind) && submission.offered_bytes > 0 ? round_up(submission.bytes(), kCacheLine)
                                                                              : 0;
}

// One place in the arena is input and output of an allreduce; other operations have no use for it.
bool is_reduced_in_place(const Signature& signature) {
  return signature.kind == OpKind::kAllreduce && signature.op != ReduceOp::kAdasum;
}

cuda::Stream stream_of(const DeviceStream& caller) { return reinterpret_cast<cuda::Stream>(caller.stream); }

// `name` is the tensor's that is submitted; empty: a result is waited for.
Status check_capture(Device& device, const DeviceStream& caller, std::string_view name) {
  bool is_capturing = false;
  if (Status s = device.is_capturing(stream_of(caller), is_capturing); !s.ok()) return s;
  if (!is_capturing) {
    return Status::ok_status();
  }
  std::string what = name.empty() ? "a collective was synchronized" : "'" + std::string(name) + "' was submitted";
  what +=
      " on a stream that is being captured into a CUDA graph; a graph cannot be replayed with collectives that ranks"
      " agree on when they run: do it outside the capture";
  return {StatusCode::kConfigError, what};
}

}  // namespace

Failure device_failure(int rank, const Status& status) {
  return {status.code(), rank,
          "rank " + std::to_string(rank) + " cannot go on with its GPU: " + status.message() +
              ". Only shutdown() is usable now"};
}

DeviceStaging::DeviceStaging(std::string library, const Layout& layout, std::shared_ptr<Arena> arena,
                             std::function<void()> notify)
    : library_(std::move(library)),
      layout_(layout),
      notify_(std::move(notify)),
      memory_(std::make_unique<StagingMemory>(std::move(arena))) {}

Status DeviceStaging::lane_of(int ordinal, std::shared_ptr<DeviceLane>& lane) {
  const std::lock_guard lock(mutex_);
  if (is_closed_.load()) {
    return {StatusCode::kShutDown, "the engine was shut down"};
  }
  if (const auto found = lanes_.find(ordinal); found != lanes_.end()) {
    lane = found->second;
    return Status::ok_status();
  }
  if (driver_ == nullptr) {
    if (Status s = Driver::load(library_, driver_); !s.ok()) return s;
  }
  if (Status s = DeviceLane::open(driver_, ordinal, notify_, lane); !s.ok()) return s;
  lanes_.emplace(ordinal, lane);
  return Status::ok_status();
}

Status DeviceStaging::take_in(const DeviceStream& caller, bool is_kept, Submission& submission) {
  auto staged = std::make_shared<StagedTensor>();
  if (Status s = lane_of(caller.device, staged->lane); !s.ok()) return s;
  const Device::Scope scope(*staged->lane->device());
  if (!scope.status().ok()) return scope.status();
  if (Status s = check_capture(*staged->lane->device(), caller, submission.name); !s.ok()) return s;
  const auto copy_in = [&](const CopyToHost& copy, const DeviceEvent* free_from) {
    return staged->lane->copy_to_host(copy, stream_of(caller), free_from, staged->copied);
  };
  if (Status s = move_to_host(submission, *staged, is_kept, copy_in); !s.ok()) return s;
  submission.staged = std::move(staged);
  return Status::ok_status();
}

Status DeviceStaging::leave_on_gpu(const DeviceStream& caller, Submission& submission) {
  auto staged = std::make_shared<StagedTensor>();
  if (Status s = lane_of(caller.device, staged->lane); !s.ok()) return s;
  Device& device = *staged->lane->device();
  const Device::Scope scope(device);
  if (!scope.status().ok()) return scope.status();
  if (Status s = check_capture(device, caller, submission.name); !s.ok()) return s;
  if (Status s = device.make_event(staged->copied); !s.ok()) return s;
  if (Status s = device.record(*staged->copied, stream_of(caller)); !s.ok()) return s;
  staged->is_on_gpu = true;
  submission.staged = std::move(staged);
  return Status::ok_status();
}

Status DeviceStaging::stage(std::span<Submission> tensors, const std::function<Status()>& watch) {
  for (Submission& tensor : tensors) {
    if (tensor.staged == nullptr || !tensor.staged->is_on_gpu) {
      continue;
    }
    StagedTensor& staged = *tensor.staged;
    const Device::Scope scope(*staged.lane->device());
    if (!scope.status().ok()) return scope.status();
    const std::shared_ptr<DeviceEvent> ready = staged.copied;
    const auto copy_in = [&](const CopyToHost& copy, const DeviceEvent* free_from) {
      return staged.lane->copy_to_host_after(copy, *ready, free_from, staged.copied);
    };
    if (Status s = move_to_host(tensor, staged, false, copy_in); !s.ok()) return s;
    staged.is_on_gpu = false;
  }
  for (const Submission& tensor : tensors) {
    if (tensor.staged != nullptr) {
      if (Status s = await_event(*tensor.staged->copied, watch); !s.ok()) return s;
    }
  }
  return Status::ok_status();
}

Status DeviceStaging::move_to_host(Submission& submission, StagedTensor& staged, bool is_kept, const CopyIn& copy_in) {
  const Signature& signature = submission.signature;
  const size_t bytes = submission.bytes();
  const size_t output_offset = output_offset_of(submission);
  const size_t needed_bytes = std::max<size_t>(1, std::max(bytes, output_offset + submission.offered_bytes));
  staged.block =
      memory_->take(submission.name, needed_bytes, is_kept && is_reduced_in_place(signature), *staged.lane->device());
  if (staged.block == nullptr) {
    return {StatusCode::kDeviceError, "there is no host memory left for the " + std::to_string(needed_bytes) +
                                          " bytes of '" + submission.name + "', a tensor of a GPU"};
  }
  std::byte* const memory = staged.block->memory;
  const CopyToHost copy{reinterpret_cast<cuda::DevicePointer>(submission.input), memory,
                        has_input(signature, layout_.rank()) ? bytes : 0};
  const std::shared_ptr<DeviceEvent> last_use = std::exchange(staged.block->last_use, nullptr);
  if (Status s = copy_in(copy, last_use.get()); !s.ok()) {
    staged.block = nullptr;  // and stays taken: a part of the copy may be under way
    return s;
  }
  staged.result = {memory + output_offset, reinterpret_cast<cuda::DevicePointer>(submission.output),
                   result_bytes(submission, layout_)};
  staged.begin_ns = now_ns();
  submission.input = memory;
  submission.output = memory + output_offset;
  if (is_reduced_in_place(signature) && bytes > 0) {
    submission.arena_offset = memory_->offset_of(*staged.block, bytes);
  }
  return Status::ok_status();
}

Status DeviceStaging::wait_for(const DeviceEvent& event, const DeviceStream& caller) {
  const bool is_on_host = caller.device == kNoDevice || is_closed_.load();
  for (bool is_complete = false; is_on_host;) {
    if (Status s = look_at(event, is_complete); !s.ok() || is_complete) return s;
    if (is_closed_.load()) {
      return {StatusCode::kShutDown, "the engine was shut down while a result was copied to the GPU"};
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  std::shared_ptr<DeviceLane> lane;
  if (Status s = lane_of(caller.device, lane); !s.ok()) return s;
  const Device::Scope scope(*lane->device());
  if (!scope.status().ok()) return scope.status();
  if (Status s = check_capture(*lane->device(), caller, ""); !s.ok()) return s;
  return lane->device()->wait_for(event, stream_of(caller));
}

bool DeviceStaging::is_lost() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane.second->device()->is_lost(); });
}

Status DeviceStaging::copy_back(std::span<Submission> tensors) {
  for (Submission& tensor : tensors) {
    if (tensor.staged == nullptr || tensor.staged->block == nullptr) {
      continue;
    }
    if (tensor.staged->result.bytes == 0) {
      memory_->put_back(std::exchange(tensor.staged->block, nullptr), nullptr);
    } else if (Status s = copy_back_to(*tensor.staged->lane, tensors); !s.ok()) {
      return s;
    }
  }
  return Status::ok_status();
}

// All of one GPU's tensors, with one event.
Status DeviceStaging::copy_back_to(DeviceLane& lane, std::span<Submission> tensors) {
  const auto is_of_lane = [&lane](const Submission& tensor) {
    return tensor.staged != nullptr && tensor.staged->lane.get() == &lane && tensor.staged->result.bytes > 0;
  };
  std::vector<CopyToDevice> copies;
  for (const Submission& tensor : tensors) {
    if (is_of_lane(tensor)) {
      copies.push_back(tensor.staged->result);
    }
  }
  const Device::Scope scope(*lane.device());
  if (!scope.status().ok()) return scope.status();
  std::shared_ptr<DeviceEvent> end;
  if (Status s = lane.copy_to_device(copies, end); !s.ok()) return s;
  for (Submission& tensor : tensors) {
    if (is_of_lane(tensor)) {
      tensor.done = end;
      memory_->put_back(std::exchange(tensor.staged->block, nullptr), end);
      add_draining(tensor.handle, end);
    }
  }
  return Status::ok_status();
}

void DeviceStaging::let_go(Handle handle, StagedTensor& staged) {
  if (staged.block != nullptr && memory_ != nullptr) {
    memory_->put_back(std::exchange(staged.block, nullptr), staged.copied);
    add_draining(handle, staged.copied);
  }
}

void DeviceStaging::add_draining(Handle handle, std::shared_ptr<DeviceEvent> end) {
  const std::lock_guard lock(draining_mutex_);
  if (draining_.empty() || draining_.back().end != end) {  // once for all tensors of a response
    drain();
  }
  draining_.push_back({handle, std::move(end)});
}

Status DeviceStaging::look_at(const DeviceEvent& event, bool& is_complete) {
  const Device::Scope scope(event.device());
  return scope.status().ok() ? event.device().is_complete(event, is_complete) : scope.status();
}

// Also true where the GPU is lost: it touches no memory any more. After any other error it may; the next poll decides.
bool DeviceStaging::is_over(const DeviceEvent& event) {
  bool is_complete = false;
  return look_at(event, is_complete).ok() ? is_complete : event.device().is_lost();
}

// Forgets the copies that have ended, in the order in which they were begun. Tensors of one response have one end.
void DeviceStaging::drain() {
  std::shared_ptr<DeviceEvent> ended;
  while (!draining_.empty() && (draining_.front().end == ended || is_over(*draining_.front().end))) {
    ended = std::move(draining_.front().end);
    draining_.pop_front();
  }
}

bool DeviceStaging::is_drained(Handle handle) {
  const std::lock_guard lock(draining_mutex_);
  const auto found =
      std::ranges::find_if(draining_, [handle](const Draining& draining) { return draining.handle == handle; });
  if (found == draining_.end()) {
    return true;
  }
  if (!is_over(*found->end)) {
    return false;
  }
  draining_.erase(found);
  return true;
}

bool DeviceStaging::is_idle() {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(lanes_, [](const auto& lane) { return lane.second->is_idle(); });
}

void DeviceStaging::close() {
  if (is_closed_.exchange(true)) {
    return;
  }
  const std::unique_lock nobody_uses_it(use_mutex_);
  const int64_t limit_ns = now_ns() + kCloseNs;
  bool has_ended = is_idle();
  while (!has_ended && now_ns() < limit_ns) {
    std::this_thread::sleep_for(kLookEvery);
    has_ended = is_idle();
  }
  const std::lock_guard lock(mutex_);
  for (auto& [ordinal, lane] : lanes_) {
    lane->mute();
    if (!has_ended) {
      [[maybe_unused]] auto* left_to_the_driver = new std::shared_ptr<DeviceLane>(lane);
    }
  }
  lanes_.clear();
  {
    const std::lock_guard draining(draining_mutex_);
    drain();
  }
  if (!has_ended) {
    [[maybe_unused]] StagingMemory* left_to_the_gpu = memory_.release();
  }
  memory_.reset();
}

}  // namespace ringtune
