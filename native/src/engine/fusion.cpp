// SPDX-License-Identifier: Apache-2.0
#include "engine/fusion.h"

#include <tuple>

namespace ringtune {
namespace {

// Adasum weighs every tensor by itself.
bool is_fusable(const Signature& a, const Signature& b) {
  const auto traits = [](const Signature& s) { return std::tie(s.kind, s.dtype, s.op, s.prescale, s.postscale); };
  return a.kind == OpKind::kAllreduce && a.op != ReduceOp::kAdasum && traits(a) == traits(b) && a.group == b.group;
}

// Id, length of the name, name, and what tells ranks that have joined of the tensor.
size_t encoded_bytes(const TensorLedger& ledger, const std::string& name) {
  const size_t signature_bytes = 1 + (ledger.joined_count() > 0 ? kMaxSignatureBytes : 0);
  return 2 * sizeof(uint32_t) + name.size() + signature_bytes;
}

}  // namespace

std::vector<std::string> pick_fusion(const TensorLedger& ledger, const FusionLimits& limits) {
  const std::string& first_name = ledger.ready_names().front();
  const Signature& first = ledger.entry(first_name).signature();
  const bool is_grouped = !first.group.empty();
  std::vector<std::string> picked{first_name};
  uint64_t bytes = first.bytes();
  size_t response_bytes = encoded_bytes(ledger, first_name);
  for (const std::string& name : ledger.ready_names()) {
    const LedgerEntry& entry = ledger.entry(name);
    const uint64_t tensor_bytes = entry.signature().bytes();
    response_bytes += encoded_bytes(ledger, name);
    if ((bytes >= limits.fusion_bytes && !is_grouped) || response_bytes > limits.max_response_bytes) {
      break;
    }
    const bool is_fitting = is_grouped || bytes + tensor_bytes <= limits.fusion_bytes;
    if (name != first_name && is_fitting && entry.error.empty() && is_fusable(first, entry.signature())) {
      picked.push_back(name);
      bytes += tensor_bytes;
    }
  }
  return picked;
}

}  // namespace ringtune
