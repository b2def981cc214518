// SPDX-License-Identifier: Apache-2.0
#include "engine/coordinator.h"

#include <algorithm>
#include <list>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "collectives/message_sizes.h"

namespace ringtune {
namespace {

// A rank may be some rounds behind; it never lags this many switches, for it cannot request past one unread.
constexpr size_t kKeptConfigHashes = 1024;

// No rank is further ahead of rank 0 than in the step that rank 0 is in, for that step's gradients wait for rank 0's.
// The end of the one after it therefore lies ahead of every rank, with a collective in between.
constexpr uint64_t kStepsUntilTold = 2;

}  // namespace

Coordinator::Coordinator(Transport& transport, const Layout& layout, const EngineConfig& config, StallLimits limits,
                         const StepRecorder& steps, const SubmissionQueue& queue, const Log& log)
    : transport_(transport),
      layout_(layout),
      steps_(steps),
      queue_(queue),
      ledger_(transport.world_size(), cache_),
      stalls_(transport, layout, ledger_, limits, log),
      config_(config),
      table_(layout) {
  config_hashes_[0] = config_hash(config);
}

uint64_t Coordinator::switch_config(const EngineConfig& config) {
  uint64_t epoch = 0;
  {
    const std::lock_guard lock(wanted_mutex_);
    wanted_.push_back(config);
    epoch = ++last_epoch_;
  }
  has_wanted_.store(true);
  transport_.notify();
  return epoch;
}

void Coordinator::measure_host_rates() { wants_host_rates_.store(true); }

void Coordinator::tell_tuning(bool is_finished) {
  {
    const std::lock_guard lock(wanted_mutex_);
    told_.push_back(is_finished);
  }
  has_told_.store(true);
  transport_.notify();
}

bool Coordinator::progress(int64_t now_ns) {
  bool is_active = receive_requests(now_ns);
  take_config_switch();
  take_tuning();
  if (ledger_.have_all_joined() || (!ledger_.ready().empty() && !hold_back(now_ns))) {
    run_round();
  }
  is_active |= publish();
  stalls_.look(now_ns);
  return is_active;
}

bool Coordinator::receive_requests(int64_t now_ns) {
  bool is_active = false;
  Bytes frame;
  Request request;
  for (const int rank : layout_.local_ranks()) {
    while (transport_.try_receive_request(rank, frame)) {
      is_active = true;
      if (!decode(frame, request)) {
        transport_.fail(unreadable_request(rank, frame.size()));
        return true;
      }
      handle({&rank, 1}, request, now_ns);
    }
  }
  for (int host = 1; host < layout_.host_count(); ++host) {
    is_active |= receive_forwarded(layout_.leader_of(host), now_ns);
  }
  return is_active;
}

bool Coordinator::receive_forwarded(int leader, int64_t now_ns) {
  bool is_active = false;
  Bytes frame;
  ForwardedRequest forwarded;
  const std::vector<int>& ranks = layout_.ranks_of(layout_.host_of(leader));
  while (transport_.try_receive_forwarded(leader, frame)) {
    is_active = true;
    const bool is_of_all =
        decode(frame, forwarded) && forwarded.rank == ForwardedRequest::kEveryRank && forwarded.request.items.empty();
    const auto one = std::ranges::find(ranks, forwarded.rank);
    if (is_of_all) {
      handle(ranks, forwarded.request, now_ns);
    } else if (one != ranks.end()) {
      handle({&*one, 1}, forwarded.request, now_ns);
    } else {
      transport_.fail(unreadable_request(leader, frame.size()));
      return true;
    }
  }
  return is_active;
}

void Coordinator::handle(std::span<const int> ranks, const Request& request, int64_t now_ns) {
  const int rank = ranks.front();
  if (!is_config_agreed(rank, request)) {
    return;
  }
  for (const CacheId id : request.cached) {
    if (!ledger_.add_cached(ranks, id, now_ns)) {
      fail_out_of_order(rank, "cache id " + std::to_string(id));
      return;
    }
  }
  for (const RequestItem& item : request.items) {
    if (!handle_item(rank, item, now_ns)) {
      fail_out_of_order(rank, "'" + item.name + "'");
      return;
    }
  }
}

bool Coordinator::handle_item(int rank, const RequestItem& item, int64_t now_ns) {
  return item.signature.kind == OpKind::kJoin ? ledger_.join(rank) : ledger_.add(rank, item, now_ns);
}

void Coordinator::fail_out_of_order(int rank, const std::string& what) {
  transport_.fail({StatusCode::kPeerLostError, rank,
                   "rank " + std::to_string(rank) + " requested " + what +
                       " out of order; this is a defect of ringtune, please report"});
}

bool Coordinator::is_config_agreed(int rank, const Request& request) {
  const auto known = config_hashes_.find(request.config_epoch);
  if (known != config_hashes_.end() && known->second == request.config_hash) {
    return true;
  }
  const std::string own = known == config_hashes_.end() ? "none" : format_hex(known->second);
  transport_.fail({StatusCode::kConfigError, rank,
                   "rank " + std::to_string(rank) + " runs config epoch " + std::to_string(request.config_epoch) +
                       " with hash " + format_hex(request.config_hash) + ", rank 0 has hash " + own +
                       " for it; the job stops because ranks must never differ in their config"});
  return false;
}

Response Coordinator::make_response(Response::Type type, uint64_t cycle) const {
  Response response;
  response.type = type;
  response.cycle = cycle;
  response.config_epoch = config_epoch_;
  return response;
}

// In a round every rank waits for an answer: none is still at its start, in calls of its own, and none has left.
void Coordinator::take_host_rates() {
  if (wants_host_rates_.exchange(false)) {
    outbox_.push_back(encode(make_response(Response::Type::kHostRates, cycle_)));
  }
}

void Coordinator::take_config_switch() {
  if (!has_wanted_.exchange(false)) {
    return;
  }
  std::deque<EngineConfig> wanted;
  {
    const std::lock_guard lock(wanted_mutex_);
    wanted.swap(wanted_);
  }
  for (const EngineConfig& config : wanted) {
    config_ = config;
    config_hashes_[++config_epoch_] = config_hash(config);
    if (config_hashes_.size() > kKeptConfigHashes) {
      config_hashes_.erase(config_hashes_.begin());
    }
    Response response = make_response(Response::Type::kConfigSwitch, cycle_ + 1);
    response.config = config;
    outbox_.push_back(encode(response));
  }
}

void Coordinator::take_tuning() {
  // Ranks with more data than rank 0 may be any number of steps ahead of it once rank 0 has joined.
  if (ledger_.joined_count() > 0 || !has_told_.exchange(false)) {
    return;
  }
  std::deque<bool> queued;
  {
    const std::lock_guard lock(wanted_mutex_);
    queued.swap(told_);
  }
  for (const bool is_finished : queued) {
    Response response = make_response(Response::Type::kTuning, cycle_ + 1);
    response.is_tuning_finished = is_finished;
    response.from_step = steps_.steps_since_meeting() + kStepsUntilTold;
    outbox_.push_back(encode(response));
  }
}

// A full fusion buffer gains nothing by more tensors; a rank that has joined has no more of them.
bool Coordinator::hold_back(int64_t now_ns) {
  if (const uint64_t step = steps_.steps(); step != rhythm_.step()) {
    rhythm_.begin_step(step, queue_.last_step(), transport_.round_trip_ns());
  }
  rhythm_.see(ledger_.ready().size(), now_ns);
  const auto add = [](uint64_t bytes, const LedgerEntry* entry) { return bytes + entry->signature().bytes(); };
  const std::list<LedgerEntry*>& ready = ledger_.ready();
  held_until_ns_ = ledger_.joined_count() > 0 ? std::nullopt : rhythm_.hold_until_ns(now_ns);
  if (held_until_ns_ && std::accumulate(ready.begin(), ready.end(), uint64_t{0}, add) >= config_.fusion_bytes) {
    held_until_ns_.reset();
  }
  return held_until_ns_.has_value();
}

void Coordinator::run_round() {
  ++cycle_;
  rhythm_.let_go();
  held_until_ns_.reset();
  take_host_rates();
  const FusionLimits limits{config_.fusion_bytes, transport_.max_frame_bytes() / 2,
                            gpu_operations_ != GpuOperations::kHost};
  while (!ledger_.ready().empty()) {
    std::vector<LedgerEntry*> entries{ledger_.ready().front()};
    if (entries.front()->error.empty()) {
      entries = pick_fusion(ledger_, limits);
      emit_collective(entries);
    } else {
      emit_error(*entries.front());
    }
    ledger_.remove(entries);
  }
  if (ledger_.have_all_joined()) {
    emit_joined();
    ledger_.reset_joined();
  }
}

void Coordinator::emit_collective(const std::vector<LedgerEntry*>& entries) {
  Response response = make_response(Response::Type::kCollective, cycle_);
  uint64_t bytes = 0;
  for (const LedgerEntry* entry : entries) {
    bytes += entry->signature().bytes();
    add_tensor(response, *entry);
  }
  choose_algorithm(response, *entries.front(), bytes);
  response.is_for_nccl = is_for_nccl(entries);
  outbox_.push_back(encode(response));
}

void Coordinator::choose_algorithm(Response& response, const LedgerEntry& first, uint64_t bytes) const {
  const OpKind kind = first.signature().kind;
  response.chunk_bytes = choose_chunk_bytes(config_, layout_);
  if (kind == OpKind::kAllreduce) {
    const TensorMemory memory = first.is_registered() ? TensorMemory::kRegistered : TensorMemory::kAny;
    const AllreduceChoice choice = choose_allreduce(config_, table_, layout_, memory, bytes);
    const bool is_rounded = config_.wire == kWireBf16 && first.signature().is_gradient;
    response.algorithm = static_cast<uint8_t>(is_rounded ? rounding_algorithm(choice.algorithm) : choice.algorithm);
    response.chunk_bytes = choice.chunk_bytes;
    response.in_flight_bytes = in_flight_bytes(transport_.round_trip_ns());
  } else if (kind == OpKind::kAllgather) {
    response.algorithm = static_cast<uint8_t>(config_.hierarchical_allgather);
  } else if (kind == OpKind::kAlltoall) {
    response.algorithm = static_cast<uint8_t>(has_costly_messages(table_, layout_));
  }
}

void Coordinator::add_tensor(Response& response, const LedgerEntry& entry) {
  if (const CacheId known = config_.response_cache ? find_id(entry) : kNoCacheId; known != kNoCacheId) {
    response.cached.push_back(known);
    return;
  }
  ResponseTensor tensor{kNoCacheId, entry.name, std::nullopt};
  if (config_.response_cache && recurrence_.comes_again(entry.name, entry.signature(), entry.place)) {
    tensor.cache_id = cache_.assign(entry.name, entry.signature(), ledger_.places(entry));
  }
  if (entry.submitted < transport_.world_size()) {
    tensor.signature = entry.signature();
  }
  response.tensors.push_back(std::move(tensor));
}

bool Coordinator::is_for_nccl(const std::vector<LedgerEntry*>& entries) const {
  const auto is_able = [this](const LedgerEntry* entry) {
    return entry->submitted == transport_.world_size() && is_nccl_able(entry->signature(), transport_.world_size());
  };
  return gpu_operations_ != GpuOperations::kHost && std::ranges::all_of(entries, is_able);
}

CacheId Coordinator::find_id(const LedgerEntry& entry) const {
  const bool is_as_cached = entry.is_by_id_alone() && entry.submitted == transport_.world_size();
  return is_as_cached ? entry.cache_id : cache_.find(entry.name, entry.signature(), ledger_.places(entry));
}

void Coordinator::emit_error(const LedgerEntry& entry) {
  Response response = make_response(Response::Type::kError, cycle_);
  response.error_code = StatusCode::kMismatchError;
  response.error_text = entry.error;
  response.tensors.push_back({kNoCacheId, entry.name, std::nullopt});
  outbox_.push_back(encode(response));
}

void Coordinator::emit_joined() {
  Response response = make_response(Response::Type::kJoined, cycle_);
  response.last_joined_rank = ledger_.last_joined_rank();
  outbox_.push_back(encode(response));
}

bool Coordinator::publish() {
  bool is_active = false;
  while (!outbox_.empty() && transport_.try_publish_response(outbox_.front())) {
    outbox_.pop_front();
    is_active = true;
  }
  return is_active;
}

}  // namespace ringtune
