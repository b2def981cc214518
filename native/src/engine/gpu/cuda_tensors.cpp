// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/cuda_tensors.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace ringtune {
namespace {

// A GPU that has failed does not say so.
constexpr int64_t kParkedNs = 5 * kNsPerMs;
// Longest pause between two looks at NCCL.
constexpr int64_t kNcclNs = 50 * kNsPerMs;
// Longest pause between two looks at copies that the timeline draws.
constexpr int64_t kTracedNs = kNsPerMs;

bool is_of_gpu(const Submission& submission) { return submission.staged != nullptr; }

bool is_reduced(OpKind kind) { return kind == OpKind::kAllreduce || kind == OpKind::kReducescatter; }

}  // namespace

std::unique_ptr<GpuTensors> make_gpu_tensors(const GpuOptions& options, const EngineParts& engine) {
  return std::make_unique<CudaTensors>(options, engine);
}

bool has_cuda() {
  std::shared_ptr<const Driver> driver;
  return Driver::load(kCudaLibrary, driver).ok();
}

CudaTensors::CudaTensors(const GpuOptions& options, const EngineParts& engine)
    : transport_(engine.transport),
      counters_(engine.counters),
      patience_(engine.transport, engine.timeout_ns),
      staging_(options.cuda_library.empty() ? kCudaLibrary : options.cuda_library, engine.layout, engine.arena,
               [this] { transport_.notify(); }),
      nccl_(engine),
      decision_(options, engine, nccl_),
      copy_trace_(engine.timeline) {}

Status CudaTensors::take_in(const DeviceStream& stream, bool is_kept, Submission& submission, OnEnd& on_end) {
  if (stream.device == kNoDevice) {
    return Status::ok_status();
  }
  const DeviceStaging::Use use = staging_.use();
  const bool is_left = decision_.may_take(submission.signature);
  const Status taken =
      is_left ? staging_.leave_on_gpu(stream, submission) : staging_.take_in(stream, is_kept, submission);
  if (!taken.ok()) {
    if (staging_.is_lost()) {
      fail(taken);
    }
    return taken;
  }
  if (on_end) {
    on_end = after_result(stream, std::move(on_end));
  }
  return Status::ok_status();
}

OnEnd CudaTensors::after_result(const DeviceStream& stream, OnEnd on_end) {
  return [this, stream, on_end = std::move(on_end)](const Outcome& outcome) {
    Outcome ordered = outcome;
    if (ordered.status.ok() && ordered.done != nullptr) {
      const DeviceStaging::Use use = staging_.use();
      ordered.status = staging_.wait_for(*ordered.done, stream);
    }
    on_end(ordered);
  };
}

Status CudaTensors::give_back(std::span<Submission> tensors, const Status& status) {
  if (std::ranges::none_of(tensors, is_of_gpu)) {
    return status;
  }
  const DeviceStaging::Use use = staging_.use();
  Status ended = status;
  if (status.ok()) {
    ended = staging_.copy_back(tensors);
    copy_trace_.begin_to_device(tensors, now_ns());
    if (!ended.ok()) {
      fail(ended);
    }
  }
  for (Submission& tensor : tensors) {
    if (is_of_gpu(tensor)) {
      staging_.let_go(tensor.handle, *tensor.staged);
    }
  }
  return ended;
}

Status CudaTensors::wait_for(const DeviceEvent& done, const DeviceStream& stream) {
  const DeviceStaging::Use use = staging_.use();
  const Status status = staging_.wait_for(done, stream);
  const std::optional<Failure> failure = transport_.failure();
  return failure ? failure->status() : status;  // NCCL's work was aborted: the event proves no success
}

bool CudaTensors::is_drained(Handle handle) {
  const DeviceStaging::Use use = staging_.use();
  return staging_.is_drained(handle);
}

std::vector<Submission> CudaTensors::collect(std::vector<Submission> batch, int64_t now_ns) {
  std::vector<Submission> ready;
  if (Status s = parked_.exchange(std::move(batch), ready); !s.ok()) {
    fail(s);
  }
  copy_trace_.look(now_ns);
  copy_trace_.end_to_host(ready, now_ns);
  return ready;
}

Status CudaTensors::run(const Response& response, std::span<Submission> tensors, CollectiveContext& host,
                        bool& is_done) {
  is_done = false;
  if (response.is_for_nccl) {
    if (Status s = choose(tensors.front(), host, is_done); !s.ok()) return s;
  }
  if (!is_done) {
    return stage(tensors);
  }
  for (const Submission& tensor : tensors) {
    counters_.add(Counter::kBytesReduced, is_reduced(tensor.signature.kind) ? tensor.bytes() : 0);
  }
  if (Status s = nccl_.run(tensors, response.chunk_bytes, host); !s.ok()) return s;
  for (const Submission& tensor : tensors) {
    staging_.add_draining(tensor.handle, tensor.done);
  }
  return Status::ok_status();
}

Status CudaTensors::choose(const Submission& first, CollectiveContext& host, bool& is_by_nccl) {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  if (!decision_.is_made()) {
    if (Status s = decision_.make(first.staged->lane->device(), host); !s.ok()) return s;
  }
  is_by_nccl = decision_.is_for_nccl() && nccl_.is_equipped_for(first.signature);
  return Status::ok_status();
}

Status CudaTensors::stage(std::span<Submission> tensors) {
  const auto is_on_gpu = [](const Submission& tensor) { return is_of_gpu(tensor) && tensor.staged->is_on_gpu; };
  if (std::ranges::none_of(tensors, is_on_gpu)) {
    return Status::ok_status();
  }
  return staging_.stage(tensors, patience_.begin("for '" + tensors.front().name + "' to be copied from its GPU"));
}

std::string_view CudaTensors::algorithm(OpKind kind) const {
  return decision_.is_for_nccl() ? nccl_.algorithm(kind) : std::string_view();
}

std::optional<int64_t> CudaTensors::due_ns() const {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  const int64_t least_ns = std::min({parked_.empty() ? kNever : kParkedNs, nccl_.is_busy() ? kNcclNs : kNever,
                                     copy_trace_.empty() ? kNever : kTracedNs});
  return least_ns == kNever ? std::nullopt : std::optional(now_ns() + least_ns);
}

void CudaTensors::fail(const Status& status) { transport_.fail(device_failure(transport_.rank(), status)); }

void CudaTensors::close() {
  nccl_.close();
  staging_.close();
}

}  // namespace ringtune
