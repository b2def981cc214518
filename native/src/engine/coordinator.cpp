// SPDX-License-Identifier: Apache-2.0
#include "engine/coordinator.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "collectives/allreduce.h"

namespace ringtune {
namespace {

constexpr int64_t kStallLookNs = kNsPerS / 4;

// A rank may be some rounds behind; it never lags this many switches, for it cannot request past one unread.
constexpr size_t kKeptConfigHashes = 1024;

}  // namespace

Coordinator::Coordinator(Transport& transport, const EngineConfig& config, CoordinatorLimits limits, const Log& log)
    : transport_(transport), limits_(limits), log_(log), ledger_(transport.world_size()), config_(config) {
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

bool Coordinator::progress(int64_t now_ns) {
  bool is_active = receive_requests(now_ns);
  take_config_switch();
  if (!ledger_.ready_names().empty()) {
    run_round();
  }
  is_active |= publish();
  if (now_ns >= next_stall_look_ns_ && !ledger_.entries().empty()) {
    next_stall_look_ns_ = now_ns + kStallLookNs;
    watch_stalls(now_ns);
    watch_departures();
  }
  return is_active;
}

bool Coordinator::receive_requests(int64_t now_ns) {
  bool is_active = false;
  Bytes frame;
  Request request;
  for (int rank = 0; rank < transport_.world_size(); ++rank) {
    while (transport_.try_receive_request(rank, frame)) {
      is_active = true;
      if (!decode(frame, request)) {
        transport_.fail({StatusCode::kPeerLostError, rank,
                         "rank " + std::to_string(rank) + " sent a request that cannot be read (" +
                             std::to_string(frame.size()) + " bytes); all ranks must run one version"});
        return true;
      }
      handle(rank, request, now_ns);
    }
  }
  return is_active;
}

void Coordinator::handle(int rank, const Request& request, int64_t now_ns) {
  if (!is_config_agreed(rank, request)) {
    return;
  }
  for (const RequestItem& item : request.items) {
    handle_item(rank, item, now_ns);
  }
}

void Coordinator::handle_item(int rank, const RequestItem& item, int64_t now_ns) {
  bool is_accepted = true;
  switch (item.type) {
    case RequestItem::Type::kFull:
      is_accepted = ledger_.add(rank, item.name, item.signature, now_ns);
      break;
    case RequestItem::Type::kCached: {
      const ResponseCache::Entry* entry = cache_.entry(item.cache_id);
      is_accepted = entry != nullptr && ledger_.add(rank, entry->name, entry->signature, now_ns);
      break;
    }
  }
  if (!is_accepted) {
    transport_.fail({StatusCode::kPeerLostError, rank,
                     "rank " + std::to_string(rank) + " requested '" + item.name + "' (cache id " +
                         std::to_string(item.cache_id) +
                         ") out of order; this is a defect of ringtune, please report"});
  }
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
    Response response;
    response.type = Response::Type::kConfigSwitch;
    response.cycle = cycle_ + 1;
    response.config_epoch = config_epoch_;
    response.config = config;
    outbox_.push_back(encode(response));
  }
}

void Coordinator::run_round() {
  ++cycle_;
  const FusionLimits limits{config_.fusion_bytes, transport_.max_frame_bytes() / 2};
  while (!ledger_.ready_names().empty()) {
    const std::string name = ledger_.ready_names().front();
    std::vector<std::string> names{name};
    if (ledger_.entry(name).is_agreed()) {
      names = pick_fusion(ledger_, limits);
      emit_collective(names);
    } else {
      emit_mismatch(ledger_.entry(name));
    }
    ledger_.remove(names);
  }
}

void Coordinator::emit_collective(const std::vector<std::string>& names) {
  Response response;
  response.type = Response::Type::kCollective;
  response.cycle = cycle_;
  response.config_epoch = config_epoch_;
  uint64_t bytes = 0;
  for (const std::string& name : names) {
    const LedgerEntry& entry = ledger_.entry(name);
    bytes += entry.signature().bytes();
    response.tensors.push_back(response_tensor(entry));
  }
  const int fixed = find_allreduce_algorithm(config_.allreduce_algorithm);
  response.algorithm = static_cast<uint8_t>(fixed >= 0 ? fixed : auto_allreduce_algorithm(bytes));
  response.chunk_bytes = config_.chunk_bytes != 0 ? config_.chunk_bytes : auto_chunk_bytes(bytes);
  outbox_.push_back(encode(response));
}

ResponseTensor Coordinator::response_tensor(const LedgerEntry& entry) {
  if (!config_.response_cache) {
    return {kNoCacheId, entry.name};
  }
  const CacheId known = cache_.find(entry.name, entry.signature());
  if (known != kNoCacheId) {
    return {known, ""};
  }
  return {cache_.assign(entry.name, entry.signature()), entry.name};
}

void Coordinator::emit_mismatch(const LedgerEntry& entry) {
  Response response;
  response.type = Response::Type::kError;
  response.cycle = cycle_;
  response.config_epoch = config_epoch_;
  response.error_code = StatusCode::kMismatchError;
  response.error_text = "tensor '" + entry.name + "' differs between ranks: " + entry.describe_signatures() +
                        "; nothing was reduced, and the engine stays usable";
  response.tensors.push_back({kNoCacheId, entry.name});
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

void Coordinator::watch_stalls(int64_t now_ns) {
  for (auto& [name, entry] : ledger_.entries()) {
    const int64_t age_ns = now_ns - entry.first_ns;
    if (entry.is_ready() || age_ns < std::min(limits_.stall_warn_ns, limits_.timeout_ns)) {
      continue;
    }
    const std::vector<int> missing = entry.missing_ranks();
    const std::string what = "tensor '" + name + "' waits for " + format_ranks(missing) + " since " +
                             format_seconds(age_ns) + " (" + std::to_string(entry.submitted) + " of " +
                             std::to_string(entry.has_submitted.size()) + " ranks have submitted it)";
    if (age_ns >= limits_.timeout_ns) {
      transport_.fail({StatusCode::kCollectiveTimeout, missing.front(),
                       what + ", the limit is " + format_seconds(limits_.timeout_ns) +
                           "; check what that rank does, or raise RINGTUNE_TIMEOUT_S"});
      return;
    }
    if (!entry.is_warned) {
      entry.is_warned = true;
      log_.write(LogLevel::kWarning,
                 what + "; the job ends at RINGTUNE_TIMEOUT_S = " + format_seconds(limits_.timeout_ns));
    }
  }
}

void Coordinator::watch_departures() {
  for (const auto& [name, entry] : ledger_.entries()) {
    for (const int rank : entry.missing_ranks()) {
      if (transport_.has_departed(rank)) {
        transport_.fail({StatusCode::kPeerLostError, rank,
                         "rank " + std::to_string(rank) +
                             " left the job (shutdown) while other ranks wait for it in '" + name +
                             "'; all ranks must run the same number of steps"});
        return;
      }
    }
  }
}

}  // namespace ringtune
