// SPDX-License-Identifier: Apache-2.0
#include "engine/progress.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "collectives/allreduce.h"
#include "collectives/host_rates.h"
#include "engine/response_check.h"

namespace ringtune {
namespace {

// While something is pending, limits and departures are looked at this often.
constexpr int64_t kWatchNs = kNsPerS / 4;
// A coordinator that is there knows more, and reports a limit first.
constexpr int64_t kCoordinatorGraceNs = kNsPerS / 2;
// A peer that makes room in a ring does not say so.
constexpr int64_t kRetryNs = kNsPerMs;

}  // namespace

void ActiveConfig::set(const EngineConfig& config, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  config_ = config;
  hash_ = config_hash(config);
  epoch_.store(epoch);
}

EngineConfig ActiveConfig::get() const {
  const std::lock_guard lock(mutex_);
  return config_;
}

void MeasuredRates::set(std::vector<uint64_t> rates) {
  const std::lock_guard lock(mutex_);
  const bool is_uneven = !HostShares::balanced(rates).is_even();
  rates_ = {std::move(rates), rates_.measurements + 1, is_uneven};
}

HostRates MeasuredRates::get() const {
  const std::lock_guard lock(mutex_);
  return rates_;
}

Progress::Progress(Transport& transport, Leader* leader, Executor executor, GpuTensors& gpu, SubmissionQueue& queue,
                   HandleTable& handles, ActiveConfig& active, Counters& counters, StepRecorder& steps,
                   Timeline& timeline, LapTimes& laps, int64_t timeout_ns)
    : transport_(transport),
      leader_(leader),
      executor_(std::move(executor)),
      gpu_(gpu),
      queue_(queue),
      handles_(handles),
      active_(active),
      counters_(counters),
      steps_(steps),
      timeline_(timeline),
      laps_(laps),
      timeout_ns_(timeout_ns) {
  gpu_.set_config(active.get());
  executor_.set_config(active.get());
}

// Returns whether anything was done; if not, the thread may sleep until the next event.
bool Progress::step() {
  if (!has_failed_) {
    if (const std::optional<Failure> failure = transport_.failure()) {
      has_failed_ = true;
      fail_everything(failure->status());
      gpu_.abort();
    }
  }
  if (has_failed_) {
    return false;
  }
  gpu_.watch();
  collect_submissions();
  bool is_active = send_requests();
  const int64_t now = now_ns();
  if (leader_ != nullptr) {
    is_active |= leader_->progress(now);
  }
  is_active |= execute_responses();
  if (!is_active) {
    watch_coordinator(now);
  }
  return is_active;
}

int64_t Progress::wait_limit_ns() const {
  if (has_failed_) {
    return kNoLimit;
  }
  int64_t limit_ns = pending_.empty() && unsent_.empty() ? kNoLimit : kWatchNs;
  const auto shorten_to = [&limit_ns](int64_t left_ns) {
    limit_ns = limit_ns == kNoLimit ? left_ns : std::min(limit_ns, left_ns);
  };
  const auto shorten_to_due = [&shorten_to](std::optional<int64_t> due_ns) {
    if (due_ns) {
      shorten_to(std::max<int64_t>(0, *due_ns - now_ns()));
    }
  };
  bool is_congested = !unsent_.empty();
  shorten_to_due(queue_.due_ns());
  shorten_to_due(gpu_.due_ns());
  if (leader_ != nullptr) {
    shorten_to_due(leader_->due_ns());
    is_congested |= leader_->is_congested();
  }
  if (is_congested) {
    shorten_to(kRetryNs);
  }
  return limit_ns;
}

void Progress::collect_submissions() {
  const int64_t now = now_ns();
  std::vector<Submission> batch = gpu_.collect(queue_.take_if_due(now), now);
  if (batch.empty()) return;
  laps_.end(Lap::kElsewhere);
  Request request{active_.epoch(), active_.hash(), {}, {}};
  for (Submission& submission : batch) {
    submission.track = timeline_.negotiate(submission.name, submission.bytes(), now);
    pending_.add(std::move(submission), active_.is_cache_on(), request);
  }
  counters_.add(Counter::kCachedRequests, request.cached.size());
  counters_.add(Counter::kFullRequests, request.items.size());
  for (Bytes& frame : encode_in_frames(std::move(request))) {
    unsent_.push_back(std::move(frame));
  }
  laps_.end(Lap::kRequest);
}

bool Progress::send_requests() {
  bool is_active = false;
  while (!unsent_.empty() && transport_.try_send_request(unsent_.front())) {
    unsent_.pop_front();
    is_active = true;
  }
  return is_active;
}

bool Progress::execute_responses() {
  bool is_active = false;
  Bytes frame;
  Response response;
  while (!is_stopping_.load() && transport_.try_receive_response(frame)) {
    is_active = true;
    waiting_since_ns_ = 0;
    if (!decode(frame, response)) {
      transport_.fail({StatusCode::kPeerLostError, kCoordinator,
                       "rank 0 sent a response that cannot be read (" + std::to_string(frame.size()) +
                           " bytes); all ranks must run one version"});
      break;
    }
    execute(response);
    // New submissions must reach the coordinator while earlier responses are still being executed.
    collect_submissions();
    send_requests();
  }
  return is_active;
}

void Progress::execute(const Response& response) {
  counters_.set(Counter::kCycles, response.cycle);
  if (timeline_.is_on()) {
    timeline_.cycle(response.cycle, now_ns());
  }
  switch (response.type) {
    case Response::Type::kConfigSwitch:
      switch_config(response);
      return;
    case Response::Type::kError:
      fail_tensors(response);
      return;
    case Response::Type::kCollective:
      run_collective(response);
      return;
    case Response::Type::kJoined:
      finish_join(response.last_joined_rank);
      return;
    case Response::Type::kHostRates:
      measure_host_rates();
      return;
    case Response::Type::kTuning:
      steps_.announce(response.is_tuning_finished, response.from_step);
      return;
  }
}

void Progress::switch_config(const Response& response) {
  active_.set(response.config, response.config_epoch);
  queue_.set_limits(queue_limits(response.config));
  gpu_.set_config(response.config);
  executor_.set_config(response.config);
  set_shares();
  counters_.add(Counter::kConfigSwitches);
  if (timeline_.is_on()) {
    timeline_.instant("config_switch",
                      "epoch " + std::to_string(response.config_epoch) + ": " + describe(response.config));
  }
}

void Progress::measure_host_rates() {
  std::vector<uint64_t> rates;
  const Status status = ringtune::measure_host_rates(executor_.make_context(), rates);
  if (!status.ok()) {
    if (!transport_.failure()) {
      transport_.fail({status.code(), transport_.rank(),
                       "rank " + std::to_string(transport_.rank()) +
                           " could not go on with measuring the hosts' links: " + status.message()});
    }
    return;
  }
  if (timeline_.is_on()) {
    std::string text = "bytes per second:";
    for (const uint64_t rate : rates) {
      text += " " + std::to_string(rate);
    }
    timeline_.instant("host_rates", text);
  }
  rates_.set(std::move(rates));
  set_shares();
}

void Progress::set_shares() {
  const EngineConfig config = active_.get();
  executor_.set_shares(config.skew ? rates_.get().bytes_per_s : std::vector<uint64_t>(), config.chunk_bytes == 0);
}

void Progress::trace_begin(const Response& response, const std::vector<Submission>& tensors) {
  if (!timeline_.is_on()) {
    return;
  }
  const OpKind kind = tensors.front().signature.kind;
  uint64_t bytes = 0;
  for (const Submission& tensor : tensors) {
    bytes += tensor.bytes();
  }
  std::string_view algorithm = response.is_for_nccl ? gpu_.algorithm(kind) : std::string_view();
  if (algorithm.empty() && kind == OpKind::kAllreduce && response.algorithm < allreduce_algorithms().size()) {
    algorithm = allreduce_algorithms()[response.algorithm].name;
  }
  const int64_t now = now_ns();
  for (const Submission& tensor : tensors) {
    timeline_.begin(tensor.track, {op_kind_name(kind), algorithm, static_cast<uint32_t>(tensors.size()), bytes}, now);
  }
}

void Progress::trace_end(const std::vector<Submission>& tensors) {
  if (!timeline_.is_on()) {
    return;
  }
  const int64_t now = now_ns();
  for (const Submission& tensor : tensors) {
    timeline_.end(tensor.track, now);
  }
}

bool Progress::can_follow(const Response& response, const std::vector<Submission>& tensors) {
  const std::string_view fault = find_fault(response, tensors);
  if (!fault.empty()) {
    transport_.fail({StatusCode::kPeerLostError, kCoordinator,
                     "rank 0 sent a response that cannot be followed (" + std::string(fault) +
                         "); all ranks must run one version"});
  }
  return fault.empty();
}

bool Progress::take_tensors(const Response& response, std::vector<Submission>& tensors, std::vector<Bytes>& zeros) {
  tensors.reserve(response.cached.size() + response.tensors.size());
  const auto take = [&](std::optional<Submission> submission, const auto& describe) {
    if (!submission) {
      transport_.fail({StatusCode::kPeerLostError, transport_.rank(),
                       "rank " + std::to_string(transport_.rank()) + " got a response for " + describe() +
                           " that it cannot place; this is a defect of ringtune, please report"});
      return false;
    }
    tensors.push_back(std::move(*submission));
    return true;
  };
  const auto take_cached = [&](CacheId id) {
    return take(pending_.take(id, zeros), [&] { return pending_.describe(id); });
  };
  const auto take_named = [&](const ResponseTensor& tensor) {
    return take(pending_.take(tensor, zeros), [&] { return "'" + tensor.name + "'"; });
  };
  return std::ranges::all_of(response.cached, take_cached) && std::ranges::all_of(response.tensors, take_named);
}

void Progress::run_collective(const Response& response) {
  std::vector<Submission> tensors;
  std::vector<Bytes> zeros;  // this rank's contributions once it has joined
  if (!take_tensors(response, tensors, zeros) || !can_follow(response, tensors)) {
    // Those that were taken are in no list any more: whoever waits for them hears of the failure here or never.
    std::erase_if(tensors, [](const Submission& submission) { return submission.handle == kNoHandle; });
    const std::optional<Failure> failure = transport_.failure();
    finish(tensors, failure ? failure->status() : Status(StatusCode::kPeerLostError, "the job has failed"));
    return;
  }
  trace_begin(response, tensors);
  laps_.end(Lap::kNegotiation);
  Status status = executor_.run(response, tensors);
  if (!status.ok() && !transport_.failure()) {
    // The other ranks wait in the collective for a part that will not come.
    transport_.fail({status.code(), transport_.rank(),
                     "rank " + std::to_string(transport_.rank()) + " could not go on with '" + tensors.front().name +
                         "': " + status.message()});
  }
  trace_end(tensors);
  std::erase_if(tensors, [](const Submission& submission) { return submission.handle == kNoHandle; });
  finish(tensors, status);
}

void Progress::finish_join(int last_joined_rank) {
  steps_.meet();
  if (std::optional<Submission> join = pending_.take(kJoinName)) {
    join->result = std::make_shared<Gathered>();
    join->result->rows.assign(1, last_joined_rank);
    finish({&*join, 1}, Status::ok_status());
  }
}

void Progress::fail_tensors(const Response& response) {
  for (const ResponseTensor& tensor : response.tensors) {
    if (std::optional<Submission> submission = pending_.take(tensor.name)) {
      timeline_.end(submission->track, now_ns());
      finish({&*submission, 1}, {response.error_code, response.error_text});
    }
  }
}

void Progress::finish(std::span<Submission> done, const Status& status) {
  const Status ended = gpu_.give_back(done, status);
  queue_.release(done);  // first: a notified caller may submit the name again at once
  handles_.complete(done, ended);
  laps_.end(Lap::kCompletion);
}

// The coordinator watches the tensors; this watches the coordinator.
void Progress::watch_coordinator(int64_t now_ns) {
  if (pending_.empty()) {
    waiting_since_ns_ = 0;
    return;
  }
  if (has_lost_way(kCoordinator) || has_lost_way(transport_.leader())) {
    return;
  }
  const bool is_waiting = pending_.wait_for_data();
  const int64_t grace_ns = transport_.silent_rank() == kCoordinator ? 0 : kCoordinatorGraceNs;
  if (!is_waiting || waiting_since_ns_ == 0) {
    waiting_since_ns_ = is_waiting ? now_ns : 0;
  } else if (now_ns - waiting_since_ns_ > timeout_ns_ + grace_ns) {
    transport_.fail({StatusCode::kCollectiveTimeout, kCoordinator,
                     "rank 0 has not answered" + transport_.describe_way(kCoordinator) + " for " +
                         format_seconds(now_ns - waiting_since_ns_) + " while rank " +
                         std::to_string(transport_.rank()) + " waits for '" + pending_.a_name() + "' (limit " +
                         format_seconds(timeout_ns_) +
                         "); see whether it is stopped or its network is down, or raise RINGTUNE_TIMEOUT_S"});
  }
}

bool Progress::has_lost_way(int rank) {
  if (rank == transport_.rank() || !transport_.has_departed(rank) || execute_responses() || pending_.empty()) {
    return false;
  }
  transport_.fail({StatusCode::kPeerLostError, rank,
                   "rank " + std::to_string(rank) + " left the job (shutdown) while rank " +
                       std::to_string(transport_.rank()) + " waits for '" + pending_.a_name() +
                       "'; all ranks must run the same number of steps"});
  return true;
}

void Progress::fail_everything(const Status& status) {
  queue_.close(status);
  const auto fail = [&](std::vector<Submission> unfinished) {
    for (Submission& submission : unfinished) {
      finish({&submission, 1}, {status.code(), status.message() + " [pending: '" + submission.name + "']"});
    }
  };
  fail(pending_.take_all());
  fail(gpu_.take_held_back());
  fail(queue_.take_all());
}

}  // namespace ringtune
