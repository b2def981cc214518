// SPDX-License-Identifier: Apache-2.0
#include "engine/host_leader.h"

#include <algorithm>
#include <utility>

namespace ringtune {

HostLeader::HostLeader(Transport& transport, const Layout& layout) : transport_(transport), layout_(layout) {}

bool HostLeader::progress(int64_t now_ns) {
  bool is_active = receive_requests(now_ns);
  pass_on_complete();
  while (!waiting_.empty() && !is_waiting(waiting_.front())) {
    waiting_.pop_front();
  }
  if (const std::optional<int64_t> due = due_ns(); due && *due <= now_ns) {
    pass_on_waiting();
  }
  is_active |= send_requests();
  is_active |= relay_responses();
  return is_active;
}

std::optional<int64_t> HostLeader::due_ns() const {
  return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().since_ns + kHostWaitNs);
}

bool HostLeader::receive_requests(int64_t now_ns) {
  bool is_active = false;
  Bytes frame;
  Request request;
  for (int local_rank = 0; local_rank < layout_.local_size(); ++local_rank) {
    while (transport_.try_receive_request(rank_of(local_rank), frame)) {
      is_active = true;
      if (!decode(frame, request)) {
        transport_.fail(unreadable_request(rank_of(local_rank), frame.size()));
        return true;
      }
      handle(local_rank, std::move(request), now_ns);
    }
  }
  return is_active;
}

void HostLeader::handle(int local_rank, Request request, int64_t now_ns) {
  const bool is_join =
      std::ranges::any_of(request.items, [](const RequestItem& item) { return item.signature.kind == OpKind::kJoin; });
  const bool is_config_same = request.config_epoch == config_epoch_ && request.config_hash == config_hash_;
  if (is_join || !is_config_same) {
    pass_on_complete();
    pass_on_waiting();
  }
  config_epoch_ = request.config_epoch;
  config_hash_ = request.config_hash;
  has_joined_ranks_ |= is_join;
  if (!has_joined_ranks_) {
    std::erase_if(request.cached, [&](CacheId id) { return hold(local_rank, id, now_ns); });
  }
  if (!request.cached.empty() || !request.items.empty()) {
    pass_on(rank_of(local_rank), std::move(request));
  }
}

bool HostLeader::hold(int local_rank, CacheId id, int64_t now_ns) {
  if (partial_.size() < id) {
    partial_.resize(id);
  }
  Partial& partial = partial_[id - 1];
  const auto bit = static_cast<size_t>(local_rank);
  if (partial.requested[bit]) {
    return false;
  }
  if (partial.requested.none()) {
    partial.since_ns = now_ns;
    waiting_.push_back({id, now_ns});
  }
  partial.requested.set(bit);
  const bool is_passed_on = partial.is_passed_on;
  if (partial.requested.count() == static_cast<size_t>(layout_.local_size())) {
    partial = {};
    if (!is_passed_on) {
      complete_.push_back(id);
    }
  }
  return !is_passed_on;
}

bool HostLeader::is_waiting(const Waiting& waiting) const {
  const Partial& partial = partial_[waiting.id - 1];
  return partial.requested.any() && !partial.is_passed_on && partial.since_ns == waiting.since_ns;
}

void HostLeader::pass_on_complete() {
  if (!complete_.empty()) {
    pass_on(ForwardedRequest::kEveryRank, {config_epoch_, config_hash_, std::exchange(complete_, {}), {}});
  }
}

void HostLeader::pass_on_waiting() {
  std::vector<std::vector<CacheId>> by_rank(static_cast<size_t>(layout_.local_size()));
  for (const Waiting& waiting : waiting_) {
    if (!is_waiting(waiting)) {
      continue;
    }
    Partial& partial = partial_[waiting.id - 1];
    partial.is_passed_on = true;
    for (size_t bit = 0; bit < by_rank.size(); ++bit) {
      if (partial.requested[bit]) {
        by_rank[bit].push_back(waiting.id);
      }
    }
  }
  waiting_.clear();
  for (size_t bit = 0; bit < by_rank.size(); ++bit) {
    if (!by_rank[bit].empty()) {
      pass_on(rank_of(static_cast<int>(bit)), {config_epoch_, config_hash_, std::move(by_rank[bit]), {}});
    }
  }
}

void HostLeader::pass_on(int32_t rank, Request request) {
  std::ranges::sort(request.cached);
  unsent_.push_back(encode(ForwardedRequest{rank, std::move(request)}));
}

bool HostLeader::send_requests() {
  bool is_active = false;
  while (!unsent_.empty() && transport_.try_forward_request(unsent_.front())) {
    unsent_.pop_front();
    is_active = true;
  }
  return is_active;
}

bool HostLeader::relay_responses() {
  bool is_active = false;
  while (!unpublished_.empty() || receive_response()) {
    if (!transport_.try_publish_response(unpublished_)) {
      return is_active;
    }
    unpublished_.clear();
    is_active = true;
  }
  if (transport_.has_departed(kCoordinator)) {
    transport_.pass_on_departure();
  }
  return is_active;
}

bool HostLeader::receive_response() {
  Response response;
  if (!transport_.try_receive_published(unpublished_)) {
    return false;
  }
  if (decode(unpublished_, response)) {  // the rank that executes it reports the fault
    note(response);
  }
  return true;
}

// Before a rank of this host has it, so that no request of the next round is here. A request that was passed on rank by
// rank is answered, though not all ranks of the host may have asked by the id.
void HostLeader::note(const Response& response) {
  const auto forget = [](Partial& partial) {
    if (partial.is_passed_on) {
      partial = {};
    }
  };
  if (response.type == Response::Type::kCollective && response.tensors.empty()) {
    for (const CacheId id : response.cached) {
      if (id - 1 < partial_.size()) {
        forget(partial_[id - 1]);
      }
    }
  } else if (response.type != Response::Type::kConfigSwitch && response.type != Response::Type::kTuning &&
             response.type != Response::Type::kHostRates) {
    std::ranges::for_each(partial_, forget);
  }
  has_joined_ranks_ &= response.type != Response::Type::kJoined;
}

}  // namespace ringtune
