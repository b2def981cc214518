// SPDX-License-Identifier: Apache-2.0
#include "engine/progress.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text.h"

namespace ringtune {
namespace {

// While something is pending, limits and departures are looked at this often.
constexpr int64_t kWatchNs = kNsPerS / 4;
// The coordinator, which knows more, reports a limit first.
constexpr int64_t kCoordinatorGraceNs = kNsPerS;
// A peer that makes room in a ring does not say so.
constexpr int64_t kRetryNs = kNsPerMs;
constexpr int64_t kNoLimit = -1;
// Items of one request frame: far below what a frame holds, whatever the names.
constexpr size_t kMaxItemsPerRequest = 256;

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

Progress::Progress(Transport& transport, Coordinator* coordinator, Executor executor, SubmissionQueue& queue,
                   HandleTable& handles, ActiveConfig& active, Counters& counters, int64_t timeout_ns)
    : transport_(transport),
      coordinator_(coordinator),
      executor_(std::move(executor)),
      queue_(queue),
      handles_(handles),
      active_(active),
      counters_(counters),
      timeout_ns_(timeout_ns) {}

void Progress::run() {
  while (!is_stopping_.load()) {
    const uint32_t ticket = transport_.announce_wait();
    if (step() || is_stopping_.load()) {
      transport_.cancel_wait();
    } else {
      transport_.wait(ticket, wait_limit_ns());
    }
  }
  fail_everything({StatusCode::kShutDown, "the engine was shut down on this rank while the operation was pending"});
}

void Progress::stop() {
  is_stopping_.store(true);
  transport_.notify();
}

// Returns whether anything was done; if not, the thread may sleep until the next event.
bool Progress::step() {
  if (!has_failed_) {
    if (const std::optional<Failure> failure = transport_.failure()) {
      has_failed_ = true;
      fail_everything(failure->status());
    }
  }
  if (has_failed_) {
    return false;
  }
  collect_submissions();
  bool is_active = send_requests();
  const int64_t now = now_ns();
  if (coordinator_ != nullptr) {
    is_active |= coordinator_->progress(now);
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
  if (const std::optional<int64_t> due_ns = queue_.due_ns()) {
    shorten_to(std::max<int64_t>(0, *due_ns - now_ns()));
  }
  if (!unsent_.empty() || (coordinator_ != nullptr && coordinator_->is_congested())) {
    shorten_to(kRetryNs);
  }
  return limit_ns;
}

void Progress::collect_submissions() {
  std::vector<Submission> batch = queue_.take_if_due(now_ns());
  std::vector<RequestItem> items;
  items.reserve(batch.size());
  for (Submission& submission : batch) {
    items.push_back(request_item(submission));
    std::string name = submission.name;
    pending_.emplace(std::move(name), std::move(submission));
  }
  for (size_t begin = 0; begin < items.size(); begin += kMaxItemsPerRequest) {
    const size_t end = std::min(items.size(), begin + kMaxItemsPerRequest);
    const Request request{active_.epoch(), active_.hash(), {items.begin() + begin, items.begin() + end}};
    unsent_.push_back(encode(request));
  }
}

RequestItem Progress::request_item(const Submission& submission) {
  if (active_.is_cache_on()) {
    if (const CacheId id = cache_.find(submission.name, submission.signature); id != kNoCacheId) {
      counters_.add(Counter::kCachedRequests);
      return {RequestItem::Type::kCached, id, "", {}};
    }
  }
  counters_.add(Counter::kFullRequests);
  return {RequestItem::Type::kFull, kNoCacheId, submission.name, submission.signature};
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
  switch (response.type) {
    case Response::Type::kConfigSwitch:
      active_.set(response.config, response.config_epoch);
      queue_.set_limits(queue_limits(response.config));
      counters_.add(Counter::kConfigSwitches);
      return;
    case Response::Type::kError:
      fail_tensors(response);
      return;
    case Response::Type::kCollective:
      run_collective(response);
      return;
  }
}

void Progress::run_collective(const Response& response) {
  std::vector<Submission> tensors;
  tensors.reserve(response.tensors.size());
  for (const ResponseTensor& tensor : response.tensors) {
    const ResponseCache::Entry* entry = cache_.entry(tensor.cache_id);
    const std::string& name = tensor.name.empty() && entry != nullptr ? entry->name : tensor.name;
    auto found = pending_.find(name);
    const bool is_known = found != pending_.end();
    const bool is_learned = !is_known || tensor.name.empty() || tensor.cache_id == kNoCacheId ||
                            cache_.learn(tensor.cache_id, name, found->second.signature);
    if (!is_known || !is_learned) {
      transport_.fail({StatusCode::kPeerLostError, transport_.rank(),
                       "rank " + std::to_string(transport_.rank()) + " got a response for '" + name +
                           "' that it cannot place; this is a defect of ringtune, please report"});
      return;
    }
    tensors.push_back(std::move(found->second));
    pending_.erase(found);
  }
  finish(tensors, executor_.run(response, tensors));
}

void Progress::fail_tensors(const Response& response) {
  for (const ResponseTensor& tensor : response.tensors) {
    if (auto found = pending_.extract(tensor.name); !found.empty()) {
      finish({&found.mapped(), 1}, {response.error_code, response.error_text});
    }
  }
}

void Progress::finish(std::span<const Submission> done, const Status& status) {
  queue_.release(done);  // first: a caller that is told may submit the name again at once
  handles_.complete(done, status);
}

// The coordinator watches the tensors; this watches the coordinator.
void Progress::watch_coordinator(int64_t now_ns) {
  if (pending_.empty()) {
    waiting_since_ns_ = 0;
    return;
  }
  if (waiting_since_ns_ == 0) {
    waiting_since_ns_ = now_ns;
  }
  const std::string& name = pending_.begin()->first;
  if (transport_.rank() != kCoordinator && transport_.has_departed(kCoordinator) && !execute_responses()) {
    transport_.fail({StatusCode::kPeerLostError, kCoordinator,
                     "rank 0 left the job (shutdown) while rank " + std::to_string(transport_.rank()) + " waits for '" +
                         name + "'; all ranks must run the same number of steps"});
  } else if (now_ns - waiting_since_ns_ > timeout_ns_ + kCoordinatorGraceNs) {
    transport_.fail({StatusCode::kCollectiveTimeout, kCoordinator,
                     "rank 0 has not answered for " + format_seconds(now_ns - waiting_since_ns_) + " while rank " +
                         std::to_string(transport_.rank()) + " waits for '" + name + "' (limit " +
                         format_seconds(timeout_ns_) + "); see whether it is stopped, or raise RINGTUNE_TIMEOUT_S"});
  }
}

void Progress::fail_everything(const Status& status) {
  queue_.close(status);
  for (Submission& submission : queue_.take_all()) {
    std::string name = submission.name;
    pending_.emplace(std::move(name), std::move(submission));
  }
  for (const auto& [name, submission] : std::exchange(pending_, {})) {
    finish({&submission, 1}, {status.code(), status.message() + " [pending: '" + name + "']"});
  }
}

}  // namespace ringtune
