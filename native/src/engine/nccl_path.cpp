// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "collectives/allgather.h"
#include "collectives/broadcast.h"
#include "collectives/reducescatter.h"
#include "engine/nccl_rows.h"
#include "transport/first_failure.h"

namespace ringtune {
namespace {

// A peer's death is known elsewhere within this; until then NCCL's own news, which names nobody, waits.
constexpr int64_t kBetterNewsNs = kNsPerS;
// Interval at which the GPU is asked what has ended.
constexpr int64_t kLookNs = kNsPerMs;
// Longest wait of a rank that leaves in good order for its last collective.
constexpr int64_t kCloseNs = 5 * kNsPerS;
constexpr size_t kMeetingChunkBytes = 64 * kKiB;

NcclReduction reduction_of(const Signature& signature, int ranks) {
  return *nccl_reduction(signature.dtype, signature.op, signature.prescale * signature.postscale, ranks);
}

}  // namespace

NcclPath::NcclPath(GpuOptions options, const Layout& layout, Transport& transport, DeviceStaging& staging,
                   const Log& log, int64_t timeout_ns)
    : options_(std::move(options)),
      layout_(layout),
      transport_(transport),
      staging_(staging),
      log_(log),
      timeout_ns_(timeout_ns),
      decision_(options_.operations == GpuOperations::kHost ? Decision::kHost : Decision::kNone) {}

Status NcclPath::choose(const Submission& first, CollectiveContext& host, bool& is_by_nccl) {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  if (decision_.load() == Decision::kNone) {
    const std::shared_ptr<Device>& device = first.staged->lane->device();
    Introduction own{};
    const Status introduced = introduce(*device, own);
    own.has_nccl = introduced.ok();
    introduced.message().copy(own.text, sizeof(own.text) - 1);
    std::vector<Introduction> all;
    if (Status s = exchange(own, host, all); !s.ok()) return s;
    if (Status s = decide(all, device, host); !s.ok()) return s;
  }
  is_by_nccl = is_open() && (results_ != nullptr || !is_ragged(first.signature.kind));
  return Status::ok_status();
}

Status NcclPath::decide(std::span<const Introduction> all, const std::shared_ptr<Device>& device,
                        CollectiveContext& host) {
  if (const std::string obstacle = find_obstacle(all); !obstacle.empty()) {
    if (options_.operations == GpuOperations::kNccl) {
      return {StatusCode::kConfigError, "RINGTUNE_GPU_OPERATIONS=nccl cannot be done: " + obstacle};
    }
    log_.write(LogLevel::kInfo, "tensors of GPUs go through host memory: " + obstacle);
    decision_.store(Decision::kHost);
    return Status::ok_status();
  }
  device_ = device;
  if (Status s = open(host); !s.ok()) return s;
  if (std::ranges::all_of(all, &Introduction::has_memory_pools)) {
    if (Status s = DeviceMemoryPool::open(device, results_); !s.ok()) return s;
  } else {
    log_.write(LogLevel::kInfo, "allgather and alltoall go through host memory: a rank's GPU has no memory pools");
  }
  decision_.store(Decision::kNccl);
  return Status::ok_status();
}

Status NcclPath::introduce(Device& device, Introduction& own) {
  bool has_memory_pools = false;
  if (Status s = device.get_uuid(own.gpu); !s.ok()) return s;
  if (Status s = device.has_memory_pools(has_memory_pools); !s.ok()) return s;
  own.has_memory_pools = has_memory_pools;
  if (Status s = NcclLibrary::load(options_.nccl_library, library_); !s.ok()) return s;
  own.version = library_->version();
  return Status::ok_status();
}

Status NcclPath::exchange(const Introduction& own, CollectiveContext& host, std::vector<Introduction>& all) const {
  Gathered gathered;
  const auto* bytes = reinterpret_cast<const std::byte*>(&own);
  const AllgatherTask task{host, bytes, 1, sizeof(own), false, kMeetingChunkBytes};
  if (Status s = allgather(task, gathered); !s.ok()) return s;
  all.resize(static_cast<size_t>(layout_.world_size()));
  std::memcpy(all.data(), gathered.data(), all.size() * sizeof(own));
  return Status::ok_status();
}

std::string NcclPath::find_obstacle(std::span<const Introduction> all) const {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].has_nccl) {
      return "on rank " + std::to_string(rank) + ", " + all[rank].text;
    }
    if (all[rank].version != all.front().version) {
      return "rank 0 has NCCL " + std::to_string(all.front().version) + ", rank " + std::to_string(rank) + " has " +
             std::to_string(all[rank].version);
    }
  }
  // Whoever asks for NCCL by name may know how to let ranks share a GPU.
  for (size_t rank = 1; rank < all.size() && options_.operations == GpuOperations::kAuto; ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (all[other].gpu == all[rank].gpu) {
        return "ranks " + std::to_string(other) + " and " + std::to_string(rank) + " share a GPU";
      }
    }
  }
  return "";
}

Status NcclPath::open(CollectiveContext& host) {
  NcclUniqueId id{};
  if (layout_.rank() == kCoordinator) {
    if (Status s = NcclCommunicator::make_id(*library_, id); !s.ok()) return s;
  }
  const BroadcastTask task{host, reinterpret_cast<std::byte*>(&id), sizeof(id), kCoordinator, kMeetingChunkBytes};
  if (Status s = broadcast(task); !s.ok()) return s;
  const Device::Scope scope(*device_);
  if (!scope.status().ok()) return scope.status();
  if (Status s = device_->make_stream(stream_); !s.ok()) return s;
  communicator_ = std::make_unique<NcclCommunicator>(library_);
  Status status = communicator_->begin(id, layout_.rank(), layout_.world_size());
  if (status.ok()) {
    status = communicator_->settle(patience("to meet in NCCL"));
  }
  if (!status.ok()) {
    return explain({status.code(), status.message() + "; RINGTUNE_GPU_OPERATIONS=host does without NCCL"});
  }
  log_.write(LogLevel::kDebug, "tensors of GPUs go by " + library_->name());
  return Status::ok_status();
}

Status NcclPath::run(std::span<Submission> tensors, size_t chunk_bytes, CollectiveContext& host) {
  if (const std::optional<Failure> failure = transport_.failure()) {
    return failure->status();
  }
  const Device::Scope scope(*device_);
  if (!scope.status().ok()) return scope.status();
  for (Submission& tensor : tensors) {
    if (Status s = prepare(tensor, chunk_bytes, host); !s.ok()) return s;
  }
  std::shared_ptr<DeviceEvent> end;
  if (Status s = enqueue_all(tensors, end); !s.ok()) {
    const Status explained = explain(s);
    communicator_->abort();  // before anybody hears of it: kernels must not touch what callers let go of
    return explained;
  }
  for (Submission& tensor : tensors) {
    tensor.done = end;
    set_rows_filled(tensor);
    staging_.add_draining(tensor.handle, end);
  }
  moved_ns_ = in_flight_.empty() ? now_ns() : moved_ns_;
  in_flight_.push_back(std::move(end));
  return Status::ok_status();
}

Status NcclPath::prepare(Submission& tensor, size_t chunk_bytes, CollectiveContext& host) {
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

Status NcclPath::stage(std::span<Submission> tensors) {
  const auto is_on_gpu = [](const Submission& tensor) { return tensor.staged != nullptr && tensor.staged->is_on_gpu; };
  if (std::ranges::none_of(tensors, is_on_gpu)) {
    return Status::ok_status();
  }
  return staging_.stage(tensors, patience("for '" + tensors.front().name + "' to be copied from its GPU"));
}

Status NcclPath::enqueue_all(std::span<const Submission> tensors, std::shared_ptr<DeviceEvent>& end) {
  if (Status s = device_->make_event(end); !s.ok()) return s;
  Status status = communicator_->group_start();
  for (size_t i = 0; i < tensors.size() && status.ok(); ++i) {
    status = enqueue(tensors[i]);
  }
  const Status ended = communicator_->group_end();  // also after an error: NCCL would stay in the group
  if (!status.ok()) return status;
  if (!ended.ok()) return ended;
  const std::string what = "for NCCL to begin with '" + tensors.front().name + "'";
  if (Status s = communicator_->settle(patience(what)); !s.ok()) return s;
  return device_->record(*end, stream_);
}

Status NcclPath::enqueue(const Submission& tensor) {
  const Signature& signature = tensor.signature;
  if (is_ragged(signature.kind)) {
    return enqueue_rows(tensor, layout_.rank(), *communicator_, stream_);
  }
  if (signature.bytes() == 0) {
    return Status::ok_status();
  }
  if (signature.kind == OpKind::kBroadcast) {
    return communicator_->broadcast({tensor.output, tensor.output, signature.bytes()}, signature.root_rank, stream_);
  }
  const NcclReduction reduction = reduction_of(signature, layout_.world_size());
  if (signature.kind == OpKind::kReducescatter) {
    return reduce_scatter(reduction, tensor);
  }
  return communicator_->allreduce(reduction, {tensor.input, tensor.output, signature.elements()}, stream_);
}

Status NcclPath::reduce_scatter(const NcclReduction& reduction, const Submission& tensor) {
  const Signature& signature = tensor.signature;
  const int ranks = layout_.world_size();
  const int64_t rows = signature.shape.front();
  const size_t row_elements = signature.elements() / static_cast<size_t>(rows);
  if (rows % ranks == 0) {
    const size_t elements = static_cast<size_t>(rows / ranks) * row_elements;
    return communicator_->reduce_scatter(reduction, {tensor.input, tensor.output, elements}, stream_);
  }
  const std::byte* input = tensor.input;
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t elements = static_cast<size_t>(rows_of_rank(rows, rank, ranks)) * row_elements;
    if (elements > 0) {
      if (Status s = communicator_->reduce(reduction, {input, tensor.output, elements}, rank, stream_); !s.ok()) {
        return s;
      }
    }
    input += elements * element_bytes(signature.dtype);
  }
  return Status::ok_status();
}

void NcclPath::watch() {
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

Status NcclPath::look_for_trouble(int64_t now_ns) {
  if (Status error = communicator_->error(); !error.ok()) {
    error_since_ns_ = error_since_ns_ == 0 ? now_ns : error_since_ns_;
    return now_ns - error_since_ns_ < kBetterNewsNs ? Status::ok_status() : error;
  }
  error_since_ns_ = 0;
  if (now_ns - moved_ns_ <= timeout_ns_) return Status::ok_status();
  return {StatusCode::kCollectiveTimeout,
          "a collective of NCCL has not ended for " + format_seconds(now_ns - moved_ns_) + " (limit " +
              format_seconds(timeout_ns_) + "); see what the other ranks' GPUs do, or raise RINGTUNE_TIMEOUT_S"};
}

Status NcclPath::drain() {
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

NcclCommunicator::Watch NcclPath::patience(const std::string& what) {
  return [this, what, since_ns = now_ns()]() -> Status {
    if (const std::optional<Failure> failure = transport_.failure()) {
      return failure->status();
    }
    if (transport_.is_interrupted(since_ns)) {
      return give_up_interrupted(transport_);
    }
    const int64_t waited_ns = now_ns() - since_ns;
    return waited_ns <= timeout_ns_
               ? Status::ok_status()
               : Status(StatusCode::kCollectiveTimeout, "rank " + std::to_string(layout_.rank()) + " has waited " +
                                                            format_seconds(waited_ns) + " " + what + " (limit " +
                                                            format_seconds(timeout_ns_) + ", RINGTUNE_TIMEOUT_S)");
  };
}

Status NcclPath::explain(const Status& seen) const {
  const std::optional<Failure> better = await_better_news(transport_);
  return better ? better->status() : seen;
}

void NcclPath::abort() {
  if (communicator_ == nullptr) {
    return;
  }
  const std::shared_ptr<Device> device = device_;
  const Device::Scope scope(*device);
  communicator_->abort();
  release();
}

void NcclPath::close() {
  if (communicator_ == nullptr) {
    return;
  }
  const std::shared_ptr<Device> device = device_;
  const Device::Scope scope(*device);
  [[maybe_unused]] const Status closed = communicator_->close([this, limit_ns = now_ns() + kCloseNs] {
    const bool is_over = transport_.failure() || now_ns() > limit_ns;
    return is_over ? Status(StatusCode::kShutDown, "the engine was shut down") : Status::ok_status();
  });
  release();
}

void NcclPath::release() {
  communicator_.reset();
  device_->destroy_stream(std::exchange(stream_, nullptr));
  results_.reset();
  in_flight_.clear();
  device_.reset();
}

}  // namespace ringtune
