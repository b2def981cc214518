// SPDX-License-Identifier: Apache-2.0
#include "engine/fusion.h"

#include <algorithm>
#include <tuple>

namespace ringtune {

// Adasum weighs every tensor by itself.
bool is_fusable(const Signature& a, const Signature& b) {
  const auto traits = [](const Signature& s) {
    return std::tie(s.kind, s.dtype, s.op, s.prescale, s.postscale, s.is_gradient);
  };
  return a.kind == OpKind::kAllreduce && a.op != ReduceOp::kAdasum && traits(a) == traits(b) && a.group == b.group;
}

namespace {

// One that lies in the arenas would lose its way among others.
bool is_fusable(const LedgerEntry& a, const LedgerEntry& b, bool is_by_memory) {
  if (is_by_memory && a.signature().memory != b.signature().memory) {
    return false;
  }
  return a.is_registered() == b.is_registered() && is_fusable(a.signature(), b.signature());
}

// Id, length of the name, name, and the signature for ranks that have joined.
size_t encoded_bytes(const TensorLedger& ledger, const LedgerEntry& entry) {
  const size_t signature_bytes = 1 + (ledger.joined_count() > 0 ? kMaxSignatureBytes : 0);
  return 2 * sizeof(uint32_t) + entry.name.size() + signature_bytes;
}

// Neighbours in the arenas are reduced as one.
void order_by_place(std::vector<LedgerEntry*>& entries) {
  if (entries.front()->is_registered()) {
    std::ranges::sort(entries, {}, &LedgerEntry::place);
  }
}

}  // namespace

std::vector<LedgerEntry*> pick_fusion(const TensorLedger& ledger, const FusionLimits& limits) {
  LedgerEntry* first = ledger.ready().front();
  const bool is_grouped = !first->signature().group.empty();
  std::vector<LedgerEntry*> picked{first};
  uint64_t bytes = first->signature().bytes();
  size_t response_bytes = encoded_bytes(ledger, *first);
  for (LedgerEntry* entry : ledger.ready()) {
    const uint64_t tensor_bytes = entry->signature().bytes();
    response_bytes += encoded_bytes(ledger, *entry);
    if ((bytes >= limits.fusion_bytes && !is_grouped) || response_bytes > limits.max_response_bytes) {
      break;
    }
    const bool is_fitting = is_grouped || bytes + tensor_bytes <= limits.fusion_bytes;
    if (entry != first && is_fitting && entry->error.empty() && is_fusable(*first, *entry, limits.is_by_memory)) {
      picked.push_back(entry);
      bytes += tensor_bytes;
    }
  }
  order_by_place(picked);
  return picked;
}

}  // namespace ringtune
