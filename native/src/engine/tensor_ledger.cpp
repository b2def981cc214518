// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor_ledger.h"

#include <algorithm>

#include "base/text.h"

namespace ringtune {
bool LedgerEntry::is_agreed() const {
  return std::all_of(signatures.begin(), signatures.end(),
                     [this](const Signature& other) { return other == signatures[0]; });
}

std::vector<int> LedgerEntry::missing_ranks() const {
  std::vector<int> missing;
  for (size_t rank = 0; rank < has_submitted.size(); ++rank) {
    if (!has_submitted[rank]) {
      missing.push_back(static_cast<int>(rank));
    }
  }
  return missing;
}

std::string LedgerEntry::describe_signatures() const {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (size_t rank = 0; rank < signatures.size(); ++rank) {
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

bool TensorLedger::add(int rank, const std::string& name, const Signature& signature, int64_t now_ns) {
  LedgerEntry& entry = entries_[name];
  if (entry.has_submitted.empty()) {
    entry.name = name;
    entry.signatures.resize(static_cast<size_t>(world_size_));
    entry.has_submitted.resize(static_cast<size_t>(world_size_));
    entry.first_ns = now_ns;
  }
  if (entry.has_submitted[static_cast<size_t>(rank)]) {
    return false;
  }
  entry.has_submitted[static_cast<size_t>(rank)] = true;
  entry.signatures[static_cast<size_t>(rank)] = signature;
  ++entry.submitted;
  if (entry.is_ready()) {
    entry.ready_position = ready_names_.insert(ready_names_.end(), name);
  }
  return true;
}

void TensorLedger::remove(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = entries_.find(name);
    ready_names_.erase(found->second.ready_position);
    entries_.erase(found);
  }
}

}  // namespace ringtune
