// SPDX-License-Identifier: Apache-2.0
#include "engine/fusion.h"

#include <algorithm>
#include <tuple>

namespace ringtune {
namespace {

// Adasum weighs every tensor by itself.
bool is_fusable(const Signature& a, const Signature& b) {
  const auto traits = [](const Signature& s) { return std::tie(s.kind, s.dtype, s.op, s.prescale, s.postscale); };
  return a.kind == OpKind::kAllreduce && a.op != ReduceOp::kAdasum && traits(a) == traits(b) && a.group == b.group;
}

// One that lies in the arenas would lose its way among others.
bool is_fusable(const LedgerEntry& a, const LedgerEntry& b) {
  return is_fusable(a.signature(), b.signature()) && a.is_registered() == b.is_registered();
}

// Id, length of the name, name, and what tells ranks that have joined of the tensor.
size_t encoded_bytes(const TensorLedger& ledger, const std::string& name) {
  const size_t signature_bytes = 1 + (ledger.joined_count() > 0 ? kMaxSignatureBytes : 0);
  return 2 * sizeof(uint32_t) + name.size() + signature_bytes;
}

// Neighbours in the arenas are reduced as one.
void order_by_place(const TensorLedger& ledger, std::vector<std::string>& names) {
  if (!ledger.entry(names.front()).is_registered()) {
    return;
  }
  std::ranges::sort(names, {}, [&ledger](const std::string& name) { return ledger.entry(name).places.front(); });
}

}  // namespace

std::vector<std::string> pick_fusion(const TensorLedger& ledger, const FusionLimits& limits) {
  const std::string& first_name = ledger.ready_names().front();
  const LedgerEntry& first = ledger.entry(first_name);
  const bool is_grouped = !first.signature().group.empty();
  std::vector<std::string> picked{first_name};
  uint64_t bytes = first.signature().bytes();
  size_t response_bytes = encoded_bytes(ledger, first_name);
  for (const std::string& name : ledger.ready_names()) {
    const LedgerEntry& entry = ledger.entry(name);
    const uint64_t tensor_bytes = entry.signature().bytes();
    response_bytes += encoded_bytes(ledger, name);
    if ((bytes >= limits.fusion_bytes && !is_grouped) || response_bytes > limits.max_response_bytes) {
      break;
    }
    const bool is_fitting = is_grouped || bytes + tensor_bytes <= limits.fusion_bytes;
    if (name != first_name && is_fitting && entry.error.empty() && is_fusable(first, entry)) {
      picked.push_back(name);
      bytes += tensor_bytes;
    }
  }
  order_by_place(ledger, picked);
  return picked;
}

}  // namespace ringtune
