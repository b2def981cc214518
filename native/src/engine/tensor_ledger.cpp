// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor_ledger.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace ringtune {
namespace {

// True where zeros may stand for a rank that has joined: the others need no bytes from it.
bool takes_joined_ranks(const Signature& signature) {
  const bool is_sum = signature.op == ReduceOp::kSum || signature.op == ReduceOp::kAverage;
  return signature.kind == OpKind::kAllreduce && (is_sum || signature.op == ReduceOp::kAdasum);
}

// Variants that a rank has submitted, ascending.
std::vector<size_t> used_variants(const LedgerEntry& entry) {
  std::vector<bool> is_used(entry.variants.size());
  is_used[0] = entry.in_full.size() < static_cast<size_t>(entry.submitted);
  for (const LedgerEntry::FullRequest& request : entry.in_full) {
    is_used[request.variant] = true;
  }
  std::vector<size_t> used;
  for (size_t variant = 0; variant < is_used.size(); ++variant) {
    if (is_used[variant]) {
      used.push_back(variant);
    }
  }
  return used;
}

size_t find_variant(LedgerEntry& entry, const Signature& signature) {
  const auto known = std::ranges::find(entry.variants, signature);
  const auto variant = static_cast<size_t>(known - entry.variants.begin());
  if (known == entry.variants.end()) {
    entry.variants.push_back(signature);
  }
  return variant;
}

// For the next time.
void reset(LedgerEntry& entry) {
  entry.variants.resize(1);
  entry.in_full.clear();
  entry.has_submitted.assign(entry.has_submitted.size(), false);
  entry.submitted = 0;
  entry.is_warned = entry.is_complete = false;
  entry.variant = 0;
  entry.error.clear();
}

}  // namespace

std::vector<size_t> LedgerEntry::variants_by_rank() const {
  std::vector<size_t> by_rank(has_submitted.size());
  for (const FullRequest& request : in_full) {
    by_rank[static_cast<size_t>(request.rank)] = request.variant;
  }
  return by_rank;
}

std::vector<int> LedgerEntry::ranks_without() const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < has_submitted.size(); ++rank) {
    if (!has_submitted[rank]) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

// In the order of the first rank of each.
std::string LedgerEntry::describe_signatures() const {
  const std::vector<size_t> by_rank = variants_by_rank();
  std::vector<size_t> order;
  std::vector<std::vector<int>> ranks(variants.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!has_submitted[rank]) {
      continue;
    }
    if (ranks[by_rank[rank]].empty()) {
      order.push_back(by_rank[rank]);
    }
    ranks[by_rank[rank]].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const size_t which : order) {
    text += (text.empty() ? "" : "; ") + variants[which].describe() + " on " + format_ranks(ranks[which]);
  }
  return text;
}

TensorLedger::TensorLedger(int world_size, const ResponseCache& cache)
    : world_size_(world_size), cache_(cache), has_joined_(static_cast<size_t>(world_size)) {}

bool TensorLedger::add(int rank, const RequestItem& item, int64_t now_ns) {
  LedgerEntry& entry = entry_of(item.name);
  if (!take(entry, {&rank, 1}, now_ns)) {
    return false;
  }
  entry.in_full.push_back({rank, find_variant(entry, item.signature), item.arena_offset});
  complete_if_nobody_is_missing(entry);
  return true;
}

bool TensorLedger::add_cached(std::span<const int> ranks, CacheId id, int64_t now_ns) {
  const size_t index = id - 1;
  if (index >= cached_.size() || cached_[index]->submitted == 0) {
    const ResponseCache::Entry* known = cache_.entry(id);
    if (known == nullptr || known->is_superseded) {
      return false;
    }
  }
  LedgerEntry& entry = cached_entry(id);
  if (!take(entry, ranks, now_ns)) {
    return false;
  }
  complete_if_nobody_is_missing(entry);
  return true;
}

LedgerEntry& TensorLedger::entry_of(const std::string& name) {
  if (const CacheId id = cache_.latest(name); id != kNoCacheId) {
    return cached_entry(id);
  }
  LedgerEntry& entry = named_[name];
  if (entry.has_submitted.empty()) {
    entry.name = name;
    entry.has_submitted.resize(static_cast<size_t>(world_size_));
  }
  return entry;
}

LedgerEntry& TensorLedger::cached_entry(CacheId id) {
  while (cached_.size() < id) {
    LedgerEntry& entry = *cached_.emplace_back(std::make_unique<LedgerEntry>());
    entry.cache_id = static_cast<CacheId>(cached_.size());
    const ResponseCache::Entry& known = *cache_.entry(entry.cache_id);
    entry.name = known.name;
    entry.variants.push_back(known.signature);
    entry.has_submitted.resize(static_cast<size_t>(world_size_));
  }
  return *cached_[id - 1];
}

bool TensorLedger::take(LedgerEntry& entry, std::span<const int> ranks, int64_t now_ns) {
  for (const int rank : ranks) {
    const auto index = static_cast<size_t>(rank);
    if (entry.has_submitted[index] || entry.is_complete || has_joined_[index]) {
      return false;
    }
    entry.has_submitted[index] = true;
  }
  if (entry.submitted == 0) {
    entry.first_ns = now_ns;
    entry.position = waiting_.insert(waiting_.end(), &entry);
  }
  entry.submitted += static_cast<int>(ranks.size());
  return true;
}

bool TensorLedger::join(int rank) {
  const auto index = static_cast<size_t>(rank);
  if (has_joined_[index]) {
    return false;
  }
  has_joined_[index] = true;
  ++joined_count_;
  last_joined_rank_ = rank;
  const std::vector<LedgerEntry*> begun(waiting_.begin(), waiting_.end());
  for (LedgerEntry* entry : begun) {
    if (!entry->is_complete) {
      complete_if_nobody_is_missing(*entry);
    }
  }
  return true;
}

void TensorLedger::reset_joined() {
  std::fill(has_joined_.begin(), has_joined_.end(), false);
  joined_count_ = 0;
}

std::vector<int> TensorLedger::ranks_not_joined() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!has_joined_[static_cast<size_t>(rank)]) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::vector<ArenaOffset> TensorLedger::places(const LedgerEntry& entry) const {
  const auto world_size = static_cast<size_t>(world_size_);
  std::vector<ArenaOffset> places(world_size, kNotInArena);
  if (entry.cache_id != kNoCacheId) {
    const std::vector<ArenaOffset>& cached = cache_.entry(entry.cache_id)->places;
    for (size_t rank = 0; rank < world_size; ++rank) {
      places[rank] = entry.has_submitted[rank] ? cached[rank] : kNotInArena;
    }
  }
  for (const LedgerEntry::FullRequest& request : entry.in_full) {
    places[static_cast<size_t>(request.rank)] = request.place;
  }
  return places;
}

std::vector<int> TensorLedger::missing_ranks(const LedgerEntry& entry) const {
  std::vector<int> missing = entry.ranks_without();
  std::erase_if(missing, [this](int rank) { return has_joined_[static_cast<size_t>(rank)]; });
  return missing;
}

std::vector<LedgerEntry*> TensorLedger::waiting_like(const LedgerEntry& entry, int64_t now_ns) const {
  const std::vector<int> missing = missing_ranks(entry);
  const auto is_like = [&](const LedgerEntry* other) {
    const bool has_same_group = !missing.empty() || other->signature().group == entry.signature().group;
    const bool has_waited = 2 * (now_ns - other->first_ns) >= now_ns - entry.first_ns;
    return has_same_group && has_waited && missing_ranks(*other) == missing;
  };
  std::vector<LedgerEntry*> alike;
  std::ranges::copy_if(waiting_, std::back_inserter(alike), is_like);
  return alike;
}

void TensorLedger::complete_if_nobody_is_missing(LedgerEntry& entry) {
  if (entry.submitted + joined_count_ < world_size_ ||
      (entry.submitted < world_size_ && !missing_ranks(entry).empty())) {
    return;
  }
  entry.is_complete = true;
  const bool is_as_cached = entry.is_by_id_alone() && entry.submitted == world_size_;
  entry.place = is_as_cached ? cache_.entry(entry.cache_id)->common_place : common_place(places(entry));
  const std::vector<size_t> used = entry.is_by_id_alone() ? std::vector<size_t>{0} : used_variants(entry);
  entry.variant = used.front();
  entry.error = find_error(entry, used.size() > 1);
  const auto grouped =
      std::ranges::find_if(used, [&entry](size_t variant) { return !entry.variants[variant].group.empty(); });
  if (grouped == used.end()) {
    release(entry);
  } else {
    add_to_group(entry, entry.variants[*grouped]);
  }
}

std::string TensorLedger::find_error(const LedgerEntry& entry, bool is_differing) const {
  if (is_differing) {
    return "tensor '" + entry.name + "' differs between ranks: " + entry.describe_signatures() +
           "; nothing was moved, and the engine stays usable";
  }
  if (entry.submitted < world_size_ && !takes_joined_ranks(entry.signature())) {
    return "tensor '" + entry.name + "', " + entry.signature().describe() + ", needs data of " +
           format_ranks(entry.ranks_without()) +
           ", which joined; until all ranks have joined only allreduce of a sum or an average is possible";
  }
  return "";
}

void TensorLedger::release(LedgerEntry& entry) { ready_.splice(ready_.end(), waiting_, entry.position); }

// All of a group or none: its tensors become ready together, or each gets the error of the first that has one.
void TensorLedger::add_to_group(LedgerEntry& entry, const Signature& member) {
  Group& group = groups_[member.group];
  group.size = std::max<size_t>(group.size, member.group_size);
  group.complete.push_back(&entry);
  if (group.error.empty() && !entry.error.empty()) {
    group.error = entry.error;
  }
  if (group.complete.size() < group.size && group.error.empty()) {
    return;
  }
  while (group.released < group.complete.size()) {
    LedgerEntry& released = *group.complete[group.released++];
    if (!group.error.empty() && released.error.empty()) {
      released.error = "tensor '" + released.name + "' is in group '" + member.group +
                       "', which goes as a whole or not at all: " + group.error;
    }
    release(released);
  }
  if (group.released >= group.size) {
    groups_.erase(member.group);
  }
}

void TensorLedger::remove(const std::vector<LedgerEntry*>& entries) {
  for (LedgerEntry* entry : entries) {
    ready_.erase(entry->position);
    if (entry->cache_id == kNoCacheId) {
      named_.erase(std::string(entry->name));
    } else {
      reset(*entry);
    }
  }
}

}  // namespace ringtune
