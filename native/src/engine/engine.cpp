// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <string_view>

#include "base/clock.h"
#include "base/hash.h"
#include "collectives/allreduce.h"
#include "collectives/reducescatter.h"
#include "engine/submission_checks.h"

namespace ringtune {
namespace {

// Far more than threads wait in a barrier at once. A name that never came back would never have a cache id.
constexpr uint64_t kBarrierNames = 64;

uint64_t tensor_hash(const Signature& signature) {
  uint64_t hash = fnv1a(&signature.dtype, sizeof(signature.dtype));
  hash = fnv1a(signature.shape.data(), signature.shape.size() * sizeof(int64_t), hash);
  return mix64(hash);
}

Status check_algorithm(const std::string& name) {
  std::string known = kAutoAlgorithm;
  for (const std::string_view configurable : configurable_allreduce_algorithms()) {
    known += ", " + std::string(configurable);
    if (name == configurable) {
      return Status::ok_status();
    }
  }
  if (name == kAutoAlgorithm) {
    return Status::ok_status();
  }
  return {StatusCode::kConfigError, "allreduce_algorithm='" + name + "' is unknown; known are " + known};
}

// Only sums keep their meaning when their inputs are rounded.
bool can_be_rounded(const Signature& signature) {
  return (signature.dtype == DataType::kFloat32 || signature.dtype == DataType::kBFloat16) &&
         (signature.op == ReduceOp::kSum || signature.op == ReduceOp::kAverage);
}

// A submission with all but its handle. The signature of a ragged kind has the shape of a row.
Submission make_submission(OpKind kind, const TensorArguments& tensor, const ReduceArguments& reduce = {}) {
  Submission submission;
  submission.name = tensor.name;
  submission.input = static_cast<const std::byte*>(tensor.input);
  submission.output = static_cast<std::byte*>(tensor.output);
  submission.offered_bytes = is_ragged(kind) ? tensor.output_bytes.value_or(0) : 0;
  submission.signature = {kind,
                          tensor.dtype,
                          reduce.op,
                          0,
                          reduce.prescale,
                          reduce.postscale,
                          tensor.shape,
                          tensor.group,
                          tensor.group_size,
                          tensor.stream.device == kNoDevice ? MemoryKind::kHost : MemoryKind::kCuda};
  std::vector<int64_t>& shape = submission.signature.shape;
  if (is_ragged(kind) && !shape.empty()) {
    submission.rows = shape.front();
    shape.erase(shape.begin());
  }
  return submission;
}

// Refuses an output that was made for the rows of another world.
Status check_scattered_room(const TensorArguments& tensor, const Submission& submission, const Layout& layout) {
  const int64_t rows = tensor.shape.front();
  const int64_t own = rows_of_rank(rows, layout.rank(), layout.world_size());
  const auto needed =
      static_cast<size_t>(rows > 0 ? submission.bytes() / static_cast<uint64_t>(rows) * static_cast<uint64_t>(own) : 0);
  if (!tensor.output_bytes || *tensor.output_bytes == needed) {
    return Status::ok_status();
  }
  return {StatusCode::kConfigError, "reducescatter of '" + tensor.name + "' leaves rank " +
                                        std::to_string(layout.rank()) + " of " + std::to_string(layout.world_size()) +
                                        " " + std::to_string(needed) + " bytes, and its output has " +
                                        std::to_string(*tensor.output_bytes) +
                                        "; a function that was compiled for another world must be compiled again"};
}

// Makes none in a world of several hosts, where no algorithm could use it.
std::shared_ptr<Arena> make_arena(const Segment& segment, const Layout& layout) {
  const bool has_use = layout.host_count() == 1 && segment.arenas() != nullptr;
  return has_use ? std::make_shared<Arena>(segment.arenas(), layout.local_rank()) : nullptr;
}

Status check_hosts(const EngineOptions& options) {
  int hosts = 0;
  for (const int host : options.hosts) {
    if (host < 0 || host > hosts) {
      return {StatusCode::kConfigError, "hosts must be numbered from 0 in the order of their first ranks"};
    }
    hosts = std::max(hosts, host + 1);
  }
  const TransportOptions& transport = options.transport;
  if ((!transport.pidfds.empty() && transport.pidfds.size() != options.hosts.size()) ||
      (hosts > 1 && transport.control_fds.size() != options.hosts.size())) {
    return {StatusCode::kConfigError, "pidfds and control_fds must have one entry per rank or none"};
  }
  if (hosts > 1 && !options.make_links) {
    return {StatusCode::kConfigError, "a world of several hosts needs a network for its data"};
  }
  return Status::ok_status();
}

Status check_config(const EngineConfig& config, const Layout& layout) {
  if ((config.hierarchical_allreduce || config.hierarchical_allgather) && layout.host_count() == 1) {
    return {StatusCode::kConfigError, "hierarchical collectives need more than one host; this world has one"};
  }
  if (Status s = check_algorithm(config.allreduce_algorithm); !s.ok()) return s;
  return validate(config);
}

}  // namespace

Status Engine::check_options(const EngineOptions& options) {
  const auto world_size = static_cast<int>(options.hosts.size());
  if (options.rank < 0 || options.rank >= world_size) {
    return {StatusCode::kConfigError,
            "rank " + std::to_string(options.rank) + " is outside 0 ... " + std::to_string(world_size - 1)};
  }
  if (Status s = check_hosts(options); !s.ok()) return s;
  if (!(options.stall_warn_s > 0) || !(options.timeout_s > 0)) {
    return {StatusCode::kConfigError, "stall_warn_s and timeout_s must be positive"};
  }
  return check_config(options.config, Layout(options.rank, options.hosts));
}

Engine::Engine(std::shared_ptr<Segment> segment, EngineOptions options)
    : options_(std::move(options)),
      layout_(options_.rank, options_.hosts),
      log_(options_.log_level, options_.rank),
      timeline_(log_, options_.rank),
      transport_(segment, layout_, options_.transport),
      links_(layout_.host_count() > 1 ? options_.make_links(transport_, layout_) : nullptr),
      arena_(make_arena(*segment, layout_)),
      coordinator_(make_coordinator()),
      host_leader_(options_.rank != kCoordinator && layout_.is_leader()
                       ? std::make_unique<HostLeader>(transport_, layout_)
                       : nullptr),
      gpu_(make_gpu_tensors(
          options_.gpu, {layout_, transport_, arena_, counters_, timeline_, log_, seconds_to_ns(options_.timeout_s)})),
      queue_(queue_limits(options_.config)),
      active_(options_.config),
      progress_(transport_, leader(),
                Executor(layout_, Stage(segment, layout_, seconds_to_ns(options_.timeout_s), &transport_, &laps_),
                         links_.get(), segment->arenas().get(), *gpu_, counters_),
                *gpu_, queue_, handles_, active_, counters_, steps_, timeline_, laps_,
                seconds_to_ns(options_.timeout_s)),
      loop_(transport_, transport_.interruption(), queue_, progress_),
      timer_(transport_, layout_, coordinator_.get(), progress_, loop_),
      communication_thread_([this] { loop_.run(); }) {}

Engine::~Engine() { shutdown(); }

std::unique_ptr<Coordinator> Engine::make_coordinator() {
  if (options_.rank != kCoordinator) {
    return nullptr;
  }
  const StallLimits limits{seconds_to_ns(options_.stall_warn_s), seconds_to_ns(options_.timeout_s)};
  auto coordinator = std::make_unique<Coordinator>(transport_, layout_, options_.config, limits, steps_, queue_, log_);
  coordinator->set_gpu_operations(options_.gpu.operations);
  coordinator->set_links(links_.get());
  return coordinator;
}

Leader* Engine::leader() const {
  return coordinator_ != nullptr ? static_cast<Leader*>(coordinator_.get()) : host_leader_.get();
}

Status Engine::allreduce_async(const TensorArguments& tensor, const ReduceArguments& reduce, bool is_gradient,
                               Handle& handle, OnEnd on_end) {
  if (Status s = check_reduction(tensor, reduce); !s.ok()) return s;
  Submission submission = make_submission(OpKind::kAllreduce, tensor, reduce);
  const bool is_in_place = tensor.input == tensor.output && tensor.stream.device == kNoDevice;
  if (arena_ != nullptr && is_in_place && reduce.op != ReduceOp::kAdasum && submission.bytes() > 0) {
    submission.arena_offset = arena_->offset_of(submission.input, submission.bytes());
  }
  if (is_gradient) {
    steps_.add_gradient(tensor_hash(submission.signature), submission.bytes());
    submission.signature.is_gradient = layout_.host_count() > 1 && can_be_rounded(submission.signature);
  }
  return submit(std::move(submission), tensor.stream, is_gradient, handle, std::move(on_end));
}

Status Engine::reducescatter_async(const TensorArguments& tensor, const ReduceArguments& reduce, Handle& handle,
                                   OnEnd on_end) {
  if (Status s = check_reduction(tensor, reduce); !s.ok()) return s;
  if (reduce.op == ReduceOp::kAdasum || tensor.shape.empty()) {
    return {StatusCode::kMismatchError,
            "reducescatter of '" + tensor.name + "' needs another operation than Adasum, and at least one dimension"};
  }
  Submission submission = make_submission(OpKind::kReducescatter, tensor, reduce);
  if (Status s = check_scattered_room(tensor, submission, layout_); !s.ok()) return s;
  return submit(std::move(submission), tensor.stream, false, handle, std::move(on_end));
}

Status Engine::broadcast_async(const TensorArguments& tensor, int root_rank, Handle& handle, OnEnd on_end) {
  if (root_rank < 0 || root_rank >= world_size()) {
    return {StatusCode::kMismatchError, "broadcast of '" + tensor.name + "' names root rank " +
                                            std::to_string(root_rank) + ", outside 0 ... " +
                                            std::to_string(world_size() - 1)};
  }
  Submission submission = make_submission(OpKind::kBroadcast, tensor);
  submission.signature.root_rank = root_rank;
  return submit(std::move(submission), tensor.stream, false, handle, std::move(on_end));
}

Status Engine::allgather_async(const TensorArguments& tensor, bool is_gradient, Handle& handle, OnEnd on_end) {
  Submission submission = make_submission(OpKind::kAllgather, tensor);
  if (is_gradient) {
    steps_.add_gradient(tensor_hash(submission.signature), submission.bytes());
  }
  return submit(std::move(submission), tensor.stream, false, handle, std::move(on_end));
}

Status Engine::alltoall_async(const TensorArguments& tensor, std::vector<int64_t> splits, Handle& handle,
                              OnEnd on_end) {
  if (Status s = check_splits(tensor, splits, world_size()); !s.ok()) return s;
  Submission submission = make_submission(OpKind::kAlltoall, tensor);
  submission.splits = std::move(splits);
  return submit(std::move(submission), tensor.stream, false, handle, std::move(on_end));
}

Status Engine::barrier_async(Handle& handle) {
  TensorArguments nothing;
  nothing.name = "barrier." + std::to_string(barriers_.fetch_add(1) % kBarrierNames);
  nothing.dtype = DataType::kUInt8;
  return submit(make_submission(OpKind::kBarrier, nothing), {}, false, handle, {});
}

Status Engine::join_async(Handle& handle) {
  TensorArguments nothing;
  nothing.name = kJoinName;
  nothing.dtype = DataType::kUInt8;
  return submit(make_submission(OpKind::kJoin, nothing), {}, false, handle, {});
}

Status Engine::submit(Submission submission, const DeviceStream& stream, bool is_kept, Handle& handle, OnEnd on_end) {
  if (Status s = check_submission(submission); !s.ok()) return s;
  if (looks_for_rounds_.load(std::memory_order_relaxed)) note_call(submission);
  if (Status s = gpu_->take_in(stream, is_kept, submission, on_end); !s.ok()) return s;
  handle = submission.handle = handles_.open(std::move(on_end));
  bool is_wake_needed = false;
  if (const Status pushed = queue_.push(submission, is_wake_needed); !pushed.ok()) {
    handles_.forget(handle);
    return gpu_->give_back({&submission, 1}, pushed);
  }
  if (is_wake_needed) {
    transport_.notify();
  }
  return Status::ok_status();
}

Status Engine::allocate_registered(size_t bytes, std::shared_ptr<std::byte>& memory) {
  if (arena_ == nullptr) {
    return {StatusCode::kConfigError, layout_.host_count() > 1
                                          ? "registered memory is for worlds of one host"
                                          : "this process has no address space for registered memory (ulimit -v)"};
  }
  return arena_->allocate(bytes, memory);
}

std::optional<Outcome> Engine::wait(Handle handle, int64_t timeout_ns, const Interruption::WantsOut& wants_out,
                                    const DeviceStream& stream) {
  const int64_t limit_ns = now_ns() + timeout_ns;
  if (!work_until([this, handle] { return handles_.is_done(handle); }, limit_ns, wants_out)) {
    return std::nullopt;
  }
  std::optional<Outcome> outcome = handles_.take(handle, std::max<int64_t>(0, limit_ns - now_ns()));
  if (outcome && outcome->status.ok() && outcome->done != nullptr) {
    outcome->status = gpu_->wait_for(*outcome->done, stream);
  }
  return outcome;
}

bool Engine::work_until(const std::function<bool()>& is_done, int64_t limit_ns,
                        const Interruption::WantsOut& wants_out) {
  bool is_leaving = false;
  const auto ask = [&] { return is_leaving = wants_out && wants_out(); };
  if (!is_done() && !loop_.drive(is_done, limit_ns, ask) && queue_.press()) {
    transport_.notify();
  }
  return !is_leaving;
}

void Engine::note_call(const Submission& submission) {
  const Signature& signature = submission.signature;
  const uint64_t kind = mix64(tensor_hash(signature) + static_cast<uint64_t>(signature.kind));
  const std::lock_guard lock(rounds_mutex_);
  if (!looks_for_rounds_) return;
  if (rounds_.take(kind, {signature.dtype, signature.shape, submission.bytes()})) {
    steps_.add_gradient(rounds_.kinds(), rounds_.bytes());
    end_step(false);
  }
  if (rounds_.has_given_up()) looks_for_rounds_ = false;
}

std::optional<std::vector<Call>> Engine::round_of_calls() const {
  const std::lock_guard lock(rounds_mutex_);
  return looks_for_rounds_ ? std::optional(rounds_.calls()) : std::nullopt;
}

uint64_t Engine::mark_step(bool is_on_device) {
  if (looks_for_rounds_) {
    const std::lock_guard lock(rounds_mutex_);
    looks_for_rounds_ = false;
  }
  return end_step(is_on_device);
}

uint64_t Engine::end_step(bool is_on_device) {
  const uint64_t epoch = active_.epoch();
  const uint64_t step = is_on_device ? steps_.mark_device_step(epoch) : steps_.mark_step(now_ns(), epoch);
  counters_.add(Counter::kSteps);
  queue_.end_step();
  return step;
}

Status Engine::apply_config(const EngineConfig& config, uint64_t& epoch) {
  if (coordinator_ == nullptr) {
    return {StatusCode::kConfigError, "rank " + std::to_string(options_.rank) + " cannot apply a config: rank 0 does"};
  }
  if (Status s = check_config(config, layout_); !s.ok()) return s;
  epoch = coordinator_->switch_config(config);
  return Status::ok_status();
}

Status Engine::tell_tuning(bool is_finished) {
  if (coordinator_ == nullptr) {
    return {StatusCode::kConfigError, "rank " + std::to_string(options_.rank) + " has no tuner: rank 0 has"};
  }
  coordinator_->tell_tuning(is_finished);
  return Status::ok_status();
}

Status Engine::measure_host_rates() {
  if (coordinator_ == nullptr) {
    return {StatusCode::kConfigError,
            "rank " + std::to_string(options_.rank) + " cannot measure the hosts' links: rank 0 does"};
  }
  coordinator_->measure_host_rates();
  return Status::ok_status();
}

uint8_t Engine::beacon_of(int rank) const {
  return rank < 0 || rank >= layout_.world_size() ? 0 : transport_.beacon_of(rank);
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
  for (size_t connection = 0; links_ != nullptr && connection < links_->connections(); ++connection) {
    values.emplace_back("connection." + std::to_string(connection), links_->sent_bytes(connection));
  }
  return values;
}

void Engine::shutdown() {
  if (!communication_thread_.joinable()) {
    return;
  }
  loop_.stop();
  communication_thread_.join();
  gpu_->close();
  timeline_.stop();
  transport_.depart();
}

void Engine::abandon_after_fork() {
  communication_thread_.detach();
  timeline_.abandon_after_fork();
  transport_.abandon_after_fork();
  if (links_) {
    links_->abandon_after_fork();
  }
}

}  // namespace ringtune
