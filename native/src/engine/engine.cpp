// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"
#include "collectives/allreduce.h"

namespace ringtune {
namespace {

constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kMaxDimensions = 64;

uint64_t tensor_hash(const Signature& signature) {
  uint64_t hash = fnv1a(&signature.dtype, sizeof(signature.dtype));
  hash = fnv1a(signature.shape.data(), signature.shape.size() * sizeof(int64_t), hash);
  return mix64(hash);
}

Status check_algorithm(const std::string& name) {
  if (name == kAutoAlgorithm || find_allreduce_algorithm(name) >= 0) {
    return Status::ok_status();
  }
  std::string known = kAutoAlgorithm;
  for (const AllreduceAlgorithm& algorithm : allreduce_algorithms()) {
    known += ", " + std::string(algorithm.name);
  }
  return {StatusCode::kConfigError, "allreduce_algorithm='" + name + "' is unknown; known are " + known};
}

Status check_tensor(const TensorArguments& tensor) {
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
    return {StatusCode::kMismatchError, "a tensor's name must have 1 ... " + std::to_string(kMaxNameBytes) +
                                            " bytes, not " + std::to_string(tensor.name.size())};
  }
  const bool is_shape_legal =
      tensor.shape.size() <= kMaxDimensions &&
      std::all_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t extent) { return extent >= 0; });
  if (!is_shape_legal) {
    return {StatusCode::kMismatchError, "the shape of tensor '" + tensor.name +
                                            "' has a negative extent or more than " + std::to_string(kMaxDimensions) +
                                            " dimensions"};
  }
  return Status::ok_status();
}

}  // namespace

Status Engine::check_options(const EngineOptions& options) {
  if (options.rank < 0 || options.rank >= options.world_size) {
    return {StatusCode::kConfigError,
            "rank " + std::to_string(options.rank) + " is outside 0 ... " + std::to_string(options.world_size - 1)};
  }
  if (!options.pidfds.empty() && options.pidfds.size() != static_cast<size_t>(options.world_size)) {
    return {StatusCode::kConfigError, "pidfds must have one entry per rank or none"};
  }
  if (!(options.stall_warn_s > 0) || !(options.timeout_s > 0)) {
    return {StatusCode::kConfigError, "stall_warn_s and timeout_s must be positive"};
  }
  if (Status s = check_algorithm(options.config.allreduce_algorithm); !s.ok()) return s;
  return validate(options.config);
}

Engine::Engine(std::shared_ptr<Segment> segment, EngineOptions options)
    : options_(std::move(options)),
      log_(options_.log_level, options_.rank),
      transport_(segment, options_.rank, options_.pidfds, options_.pids),
      coordinator_(options_.rank != kCoordinator
                       ? nullptr
                       : std::make_unique<Coordinator>(
                             transport_, options_.config,
                             CoordinatorLimits{seconds_to_ns(options_.stall_warn_s), seconds_to_ns(options_.timeout_s)},
                             log_)),
      queue_(queue_limits(options_.config)),
      active_(options_.config),
      progress_(transport_, coordinator_.get(),
                Executor(Stage(segment, options_.rank, seconds_to_ns(options_.timeout_s)), counters_), queue_, handles_,
                active_, counters_, seconds_to_ns(options_.timeout_s)),
      communication_thread_([this] { progress_.run(); }) {}

Engine::~Engine() { shutdown(); }

Status Engine::allreduce_async(const TensorArguments& tensor, ReduceOp op, bool is_gradient, Handle& handle) {
  if (!is_reducible(tensor.dtype)) {
    return {StatusCode::kMismatchError, "allreduce of '" + tensor.name + "' has dtype " +
                                            std::string(dtype_name(tensor.dtype)) +
                                            "; supported are float32, float64, int32, int64"};
  }
  Signature signature{OpKind::kAllreduce, tensor.dtype, op, 0, tensor.shape};
  if (is_gradient) {
    steps_.add_gradient(tensor_hash(signature), signature.bytes());
  }
  return submit(tensor, std::move(signature), handle);
}

Status Engine::broadcast_async(const TensorArguments& tensor, int root_rank, Handle& handle) {
  if (root_rank < 0 || root_rank >= options_.world_size) {
    return {StatusCode::kMismatchError, "broadcast of '" + tensor.name + "' names root rank " +
                                            std::to_string(root_rank) + ", outside 0 ... " +
                                            std::to_string(options_.world_size - 1)};
  }
  return submit(tensor, {OpKind::kBroadcast, tensor.dtype, ReduceOp::kSum, root_rank, tensor.shape}, handle);
}

Status Engine::allgather_async(const TensorArguments& tensor, Handle& handle) {
  return submit(tensor, {OpKind::kAllgather, tensor.dtype, ReduceOp::kSum, 0, tensor.shape}, handle);
}

Status Engine::barrier_async(Handle& handle) {
  TensorArguments nothing;
  nothing.name = "barrier." + std::to_string(barriers_.fetch_add(1));
  return submit(nothing, {OpKind::kBarrier, DataType::kUInt8, ReduceOp::kSum, 0, {}}, handle);
}

Status Engine::submit(const TensorArguments& tensor, Signature signature, Handle& handle) {
  if (Status s = check_tensor(tensor); !s.ok()) return s;
  handle = handles_.open();
  const Submission submission{handle, tensor.name, std::move(signature), static_cast<const std::byte*>(tensor.input),
                              static_cast<std::byte*>(tensor.output)};
  bool is_wake_needed = false;
  const Status status = queue_.push(submission, is_wake_needed);
  if (!status.ok()) {
    handles_.complete({&submission, 1}, status);
    [[maybe_unused]] const std::optional<Status> forgotten = wait(handle, 0);
    return status;
  }
  if (is_wake_needed) {
    transport_.notify();
  }
  return Status::ok_status();
}

std::optional<Status> Engine::wait(Handle handle, int64_t timeout_ns) { return handles_.take(handle, timeout_ns); }

void Engine::press() {
  if (queue_.press()) {
    transport_.notify();
  }
}

void Engine::mark_step() {
  steps_.mark_step(now_ns(), active_.epoch());
  counters_.add(Counter::kSteps);
  queue_.end_step();
}

Status Engine::apply_config(const EngineConfig& config, uint64_t& epoch) {
  if (coordinator_ == nullptr) {
    return {StatusCode::kConfigError, "rank " + std::to_string(options_.rank) + " cannot apply a config: rank 0 does"};
  }
  if (Status s = check_algorithm(config.allreduce_algorithm); !s.ok()) return s;
  if (Status s = validate(config); !s.ok()) return s;
  epoch = coordinator_->switch_config(config);
  return Status::ok_status();
}

std::vector<std::pair<std::string, uint64_t>> Engine::counters() const {
  std::vector<std::pair<std::string, uint64_t>> values;
  for (size_t i = 0; i < kCounterNames.size(); ++i) {
    values.emplace_back(kCounterNames[i], counters_.value(static_cast<Counter>(i)));
  }
  const auto algorithms = allreduce_algorithms();
  for (size_t i = 0; i < algorithms.size(); ++i) {
    values.emplace_back("algorithm." + std::string(algorithms[i].name), counters_.algorithm_uses(static_cast<int>(i)));
  }
  return values;
}

void Engine::shutdown() {
  if (!communication_thread_.joinable()) {
    return;
  }
  progress_.stop();
  communication_thread_.join();
  transport_.depart();
}

void Engine::abandon_after_fork() {
  communication_thread_.detach();
  transport_.abandon_after_fork();
}

}  // namespace ringtune
