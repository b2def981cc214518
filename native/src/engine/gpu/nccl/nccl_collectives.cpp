// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_collectives.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "engine/gpu/nccl/nccl_reducescatter.h"
#include "engine/gpu/nccl/nccl_rows.h"
#include "engine/gpu/staging/device_staging.h"
#include "engine/gpu/staging/device_wait.h"

namespace ringtune {
namespace {

// A peer's death is known elsewhere within this; until then NCCL's own error, which names no rank, waits.
constexpr int64_t kBetterNewsNs = kNsPerS;
// Interval at which the GPU's events are polled.
constexpr int64_t kLookNs = kNsPerMs;
// Longest wait of a rank that leaves in good order for its last collective.
constexpr int64_t kCloseNs = 5 * kNsPerS;
// Longest wait for the stream's last kernels, once NCCL is through or aborted.
constexpr int64_t kReleaseNs = kNsPerS;

}  // namespace

NcclCollectives::NcclCollectives(const EngineParts& engine)
    : layout_(engine.layout),
      transport_(engine.transport),
      counters_(engine.counters),
      timeout_ns_(engine.timeout_ns),
      patience_(engine.transport, engine.timeout_ns) {}

Status NcclCollectives::open(std::shared_ptr<Device> device, std::shared_ptr<const NcclLibrary> library,
                             std::shared_ptr<PackKernels> kernels, CollectiveContext& host) {
  device_ = std::move(device);
  kernels_ = std::move(kernels);
  const Device::Scope scope(*device_);
  if (!scope.status().ok()) return scope.status();
  if (Status s = device_->make_stream(stream_); !s.ok()) return s;
  const auto drain_all = [this](const NcclCommunicator::Watch& watch) {
    return in_flight_.empty() ? Status::ok_status() : await_event(*in_flight_.back(), watch);
  };
  communicators_ = std::make_unique<NcclCommunicators>(std::move(library), layout_, drain_all);
  if (Status s = communicators_->open(host, patience_.begin("to meet in NCCL")); !s.ok()) {
    return patience_.explain({s.code(), s.message() + "; RINGTUNE_GPU_OPERATIONS=host does without NCCL"});
  }
  return Status::ok_status();
}

Status NcclCollectives::equip(const NcclEquipment& common) {
  if (common.has_memory_pools) {
    if (Status s = DeviceMemoryPool::open(device_, results_); !s.ok()) return s;
  }
  if (!common.has_kernels) {
    kernels_.reset();
  }
  allreduce_ = std::make_unique<NcclAllreduce>(results_, kernels_, stream_);
  return Status::ok_status();
}

bool NcclCollectives::is_equipped_for(const Signature& signature) const {
  if (is_ragged(signature.kind)) {
    return results_ != nullptr;
  }
  return signature.kind == OpKind::kBroadcast ||
         allreduce_->can_scale(gpu_reduction_of(signature, layout_.world_size())->kernels);
}

Status NcclCollectives::run(std::span<Submission> tensors, size_t chunk_bytes, CollectiveContext& host) {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  const Device::Scope scope(*device_);
  if (!scope.status().ok()) return scope.status();
  for (Submission& tensor : tensors) {
    if (Status s = prepare(tensor, chunk_bytes, host); !s.ok()) return s;
  }
  std::shared_ptr<DeviceEvent> end;
  if (Status s = device_->make_event(end); !s.ok()) return s;
  if (Status s = enqueue_all(tensors, chunk_bytes, host, end); !s.ok()) {
    const Status explained = patience_.explain(s);
    communicators_->abort();  // before callers learn of it: kernels must not touch memory that callers release
    if (device_->record(*end, stream_).ok()) {
      set_end(tensors, end);
    }
    return explained;
  }
  count(tensors.front().signature.kind);
  set_end(tensors, end);
  for (Submission& tensor : tensors) {
    tensor.done = end;
  }
  moved_ns_ = in_flight_.empty() ? now_ns() : moved_ns_;
  in_flight_.push_back(std::move(end));
  return Status::ok_status();
}

void NcclCollectives::set_end(std::span<const Submission> tensors, const std::shared_ptr<DeviceEvent>& end) {
  allreduce_->set_end(end);
  for (const Submission& tensor : tensors) {
    set_rows_filled(tensor, end);
  }
}

void NcclCollectives::count(OpKind kind) {
  const bool has_levels = is_hierarchical(kind);
  counters_.add(Counter::kNcclResponses);
  counters_.add(Counter::kNcclHierarchicalResponses, has_levels ? 1 : 0);
  counters_.add(Counter::kNcclLimitedResponses, knobs_.max_ctas > 0 && !has_levels ? 1 : 0);
  counters_.set(Counter::kNcclPackedTensors, allreduce_->packed_tensors());
}

Status NcclCollectives::prepare(Submission& tensor, size_t chunk_bytes, CollectiveContext& host) {
  if (tensor.staged->lane->device() != device_) {
    return {StatusCode::kConfigError,
            "it is on GPU " + std::to_string(tensor.staged->lane->device()->ordinal()) +
                ", but this rank's NCCL communicator is of GPU " + std::to_string(device_->ordinal()) +
                ", where its first tensor was; RINGTUNE_GPU_OPERATIONS=host allows several GPUs per rank"};
  }
  if (Status s = device_->wait_for(*tensor.staged->copied, stream_); !s.ok()) return s;
  return is_ragged(tensor.signature.kind) ? make_room_for_rows(tensor, chunk_bytes, host, *results_, stream_)
                                          : Status::ok_status();
}

Status NcclCollectives::enqueue_all(std::span<const Submission> tensors, size_t chunk_bytes, CollectiveContext& host,
                                    const std::shared_ptr<DeviceEvent>& end) {
  if (tensors.front().signature.kind == OpKind::kAllreduce) {
    if (Status s = allreduce(tensors, chunk_bytes, host); !s.ok()) return s;
  } else {
    const NcclCommunicator::Watch watch = patience_.begin("for NCCL to begin with '" + tensors.front().name + "'");
    NcclCommunicator* communicator = nullptr;
    if (Status s = communicators_->of_world(knobs_.max_ctas, watch, communicator); !s.ok()) return s;
    const auto enqueue_each = [&] {
      Status status;
      for (size_t i = 0; i < tensors.size() && status.ok(); ++i) {
        status = enqueue(tensors[i], *communicator);
      }
      return status;
    };
    if (Status s = communicator->run_group(enqueue_each, watch); !s.ok()) return s;
    if (Status s = finish(tensors.front()); !s.ok()) return s;
  }
  return device_->record(*end, stream_);
}

Status NcclCollectives::allreduce(std::span<const Submission> tensors, size_t chunk_bytes, CollectiveContext& host) {
  const Signature& signature = tensors.front().signature;
  const GpuReduction reduction = *gpu_reduction_of(signature, layout_.world_size());
  const NcclCommunicator::Watch watch = patience_.begin("for NCCL to begin with '" + tensors.front().name + "'");
  const bool has_levels = is_hierarchical(signature.kind);
  NcclCommunicator* communicator = nullptr;
  if (Status s = has_levels ? communicators_->of_host(watch, communicator)
                            : communicators_->of_world(knobs_.max_ctas, watch, communicator);
      !s.ok()) {
    return s;
  }
  if (!has_levels) {
    const auto sum = [&](std::span<const NcclBuffers> buffers) {
      const auto enqueue_each = [&] { return communicator->allreduce_each(reduction.nccl, buffers, stream_); };
      return communicator->run_group(enqueue_each, watch);
    };
    return allreduce_->run(tensors, reduction.kernels, {knobs_.pack_bytes, false, 0}, sum);
  }
  if (hierarchy_ == nullptr) {
    hierarchy_ = std::make_unique<NcclHierarchy>(device_, stream_);
  }
  const ReduceOp op = signature.op == ReduceOp::kAverage ? ReduceOp::kSum : signature.op;
  const Reduction across{reduction.kernels.types.buffer, op, 1, 1, layout_.host_count()};
  const auto sum = [&](std::span<const NcclBuffers> buffers) {
    return hierarchy_->allreduce({*communicator, reduction.nccl, across, buffers.front().output,
                                  buffers.front().elements, chunk_bytes, host, watch});
  };
  return allreduce_->run(tensors, reduction.kernels, {0, true, NcclHierarchy::room_elements(layout_)}, sum);
}

bool NcclCollectives::is_hierarchical(OpKind kind) const {
  return kind == OpKind::kAllreduce && knobs_.is_hierarchical && NcclHierarchy::has_effect(layout_) &&
         allreduce_->can_pack();
}

std::string_view NcclCollectives::algorithm(OpKind kind) const {
  return is_hierarchical(kind) ? "nccl_hierarchical" : "nccl";
}

Status NcclCollectives::enqueue(const Submission& tensor, NcclCommunicator& communicator) {
  const Signature& signature = tensor.signature;
  if (is_ragged(signature.kind)) {
    return enqueue_rows(tensor, layout_.rank(), communicator, stream_);
  }
  if (signature.bytes() == 0) {
    return Status::ok_status();
  }
  if (signature.kind == OpKind::kBroadcast) {
    return communicator.broadcast({tensor.output, tensor.output, signature.bytes()}, signature.root_rank, stream_);
  }
  const NcclReduction reduction = gpu_reduction_of(signature, layout_.world_size())->nccl;
  return enqueue_reducescatter(tensor, reduction, layout_, communicator, stream_);
}

Status NcclCollectives::finish(const Submission& tensor) {
  const Signature& signature = tensor.signature;
  if (signature.kind != OpKind::kReducescatter || signature.bytes() == 0) {
    return Status::ok_status();
  }
  const DeviceArray own = own_rows_of(tensor, layout_);
  return allreduce_->finish(gpu_reduction_of(signature, layout_.world_size())->kernels, {&own, 1});
}

void NcclCollectives::watch() {
  const int64_t now = now_ns();
  if (in_flight_.empty() || now - looked_ns_ < kLookNs) {
    return;
  }
  looked_ns_ = now;
  const Device::Scope scope(*device_);
  Status status = scope.status().ok() ? drain() : scope.status();
  if (status.ok() && !in_flight_.empty()) {
    status = look_for_trouble(now);
  }
  if (!status.ok()) {
    transport_.fail(device_failure(layout_.rank(), status));
  }
}

Status NcclCollectives::look_for_trouble(int64_t now_ns) {
  if (Status error = communicators_->error(); !error.ok()) {
    error_since_ns_ = error_since_ns_ == 0 ? now_ns : error_since_ns_;
    return now_ns - error_since_ns_ < kBetterNewsNs ? Status::ok_status() : error;
  }
  error_since_ns_ = 0;
  if (now_ns - moved_ns_ <= timeout_ns_) return Status::ok_status();
  return {StatusCode::kCollectiveTimeout,
          "a collective of NCCL has not ended for " + format_seconds(now_ns - moved_ns_) + " (limit " +
              format_seconds(timeout_ns_) + "); see what the other ranks' GPUs do, or raise RINGTUNE_TIMEOUT_S"};
}

Status NcclCollectives::drain() {
  bool is_over = true;
  while (!in_flight_.empty() && is_over) {
    if (Status s = device_->is_complete(*in_flight_.front(), is_over); !s.ok()) return s;
    if (is_over) {
      in_flight_.pop_front();
      moved_ns_ = now_ns();
    }
  }
  return Status::ok_status();
}

void NcclCollectives::abort() {
  if (communicators_ == nullptr) {
    return;
  }
  const std::shared_ptr<Device> device = device_;
  const Device::Scope scope(*device);
  communicators_->abort();
  release();
}

void NcclCollectives::close() {
  if (communicators_ == nullptr) {
    return;
  }
  const std::shared_ptr<Device> device = device_;
  const Device::Scope scope(*device);
  [[maybe_unused]] const Status closed = communicators_->close([this, limit_ns = now_ns() + kCloseNs] {
    const bool is_over = transport_.failure() || now_ns() > limit_ns;
    return is_over ? Status(StatusCode::kShutDown, "the engine was shut down") : Status::ok_status();
  });
  release();
}

void NcclCollectives::release() {
  communicators_.reset();
  const int64_t limit_ns = now_ns() + kReleaseNs;
  bool is_idle = false;
  while (device_->is_idle(stream_, is_idle).ok() && !is_idle && now_ns() < limit_ns) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (!is_idle && !device_->is_lost()) {
    [[maybe_unused]] auto* kernels_in_use = new std::shared_ptr<PackKernels>(kernels_);
    [[maybe_unused]] NcclHierarchy* memory_in_use = hierarchy_.release();
  }
  device_->destroy_stream(std::exchange(stream_, nullptr));
  allreduce_.reset();
  hierarchy_.reset();
  kernels_.reset();
  results_.reset();
  in_flight_.clear();
  device_.reset();
}

}  // namespace ringtune
