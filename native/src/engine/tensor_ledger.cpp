// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor_ledger.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace ringtune {
namespace {

// What zeros may stand for: a rank that has joined has nothing to give to the others.
bool takes_joined_ranks(const Signature& signature) {
  const bool is_sum = signature.op == ReduceOp::kSum || signature.op == ReduceOp::kAverage;
  return signature.kind == OpKind::kAllreduce && (is_sum || signature.op == ReduceOp::kAdasum);
}

// The signature, of those submitted, that names a group; all name the same one where they agree.
const Signature* find_grouped(const LedgerEntry& entry) {
  for (size_t rank = 0; rank < entry.signatures.size(); ++rank) {
    if (entry.has_submitted[rank] && !entry.signatures[rank].group.empty()) {
      return &entry.signatures[rank];
    }
  }
  return nullptr;
}

}  // namespace

bool LedgerEntry::is_agreed() const {
  for (size_t rank = 0; rank < signatures.size(); ++rank) {
    if (has_submitted[rank] && signatures[rank] != signature()) {
      return false;
    }
  }
  return true;
}

bool LedgerEntry::is_registered() const {
  const auto is_elsewhere = [this](ArenaOffset place) { return place != places.front(); };
  return places.front() != kNotInArena && std::none_of(places.begin(), places.end(), is_elsewhere);
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

std::string LedgerEntry::describe_signatures() const {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (size_t rank = 0; rank < signatures.size(); ++rank) {
    if (!has_submitted[rank]) {
      continue;
    }
    const std::string text = signatures[rank].describe();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) { return known.first == text; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {text, {}});
    }
    group->second.push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [signature, ranks] : groups) {
    text += (text.empty() ? "" : "; ") + signature + " on " + format_ranks(ranks);
  }
  return text;
}

TensorLedger::TensorLedger(int world_size) : world_size_(world_size), has_joined_(static_cast<size_t>(world_size)) {}

bool TensorLedger::add(int rank, const std::string& name, const Signature& signature, ArenaOffset place,
                       int64_t now_ns) {
  const auto index = static_cast<size_t>(rank);
  LedgerEntry& entry = entries_[name];
  if (entry.has_submitted.empty()) {
    entry.name = name;
    entry.signatures.resize(static_cast<size_t>(world_size_));
    entry.places.resize(static_cast<size_t>(world_size_), kNotInArena);
    entry.has_submitted.resize(static_cast<size_t>(world_size_));
    entry.first_rank = rank;
    entry.first_ns = now_ns;
  }
  if (entry.has_submitted[index] || entry.is_complete || has_joined_[index]) {
    return false;
  }
  entry.has_submitted[index] = true;
  entry.signatures[index] = signature;
  entry.places[index] = place;
  ++entry.submitted;
  complete_if_nobody_is_missing(entry);
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
  // In the order in which they were begun: an unordered map has none.
  std::vector<LedgerEntry*> waiting;
  for (auto& [name, entry] : entries_) {
    if (!entry.is_complete) {
      waiting.push_back(&entry);
    }
  }
  std::sort(waiting.begin(), waiting.end(), [](const LedgerEntry* a, const LedgerEntry* b) {
    return std::tie(a->first_ns, a->name) < std::tie(b->first_ns, b->name);
  });
  for (LedgerEntry* entry : waiting) {
    complete_if_nobody_is_missing(*entry);
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

std::vector<int> TensorLedger::missing_ranks(const LedgerEntry& entry) const {
  std::vector<int> missing = entry.ranks_without();
  std::erase_if(missing, [this](int rank) { return has_joined_[static_cast<size_t>(rank)]; });
  return missing;
}

void TensorLedger::complete_if_nobody_is_missing(LedgerEntry& entry) {
  if (entry.submitted + joined_count_ < world_size_ || !missing_ranks(entry).empty()) {
    return;
  }
  entry.is_complete = true;
  entry.error = find_error(entry);
  if (const Signature* member = find_grouped(entry)) {
    add_to_group(entry, *member);
  } else {
    release(entry);
  }
}

std::string TensorLedger::find_error(const LedgerEntry& entry) const {
  if (!entry.is_agreed()) {
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

void TensorLedger::release(LedgerEntry& entry) {
  entry.ready_position = ready_names_.insert(ready_names_.end(), entry.name);
}

// All of a group or none: its tensors become ready together, or each gets the error of the first that has one.
void TensorLedger::add_to_group(LedgerEntry& entry, const Signature& member) {
  Group& group = groups_[member.group];
  group.size = std::max<size_t>(group.size, member.group_size);
  group.complete.push_back(entry.name);
  if (group.error.empty() && !entry.error.empty()) {
    group.error = entry.error;
  }
  if (group.complete.size() < group.size && group.error.empty()) {
    return;
  }
  while (group.released < group.complete.size()) {
    LedgerEntry& released = entries_.at(group.complete[group.released++]);
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

void TensorLedger::remove(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = entries_.find(name);
    ready_names_.erase(found->second.ready_position);
    entries_.erase(found);
  }
}

}  // namespace ringtune
