// SPDX-License-Identifier: Apache-2.0
#include "engine/fusion.h"

namespace ringtune {
namespace {

bool is_fusable(const Signature& a, const Signature& b) {
  return a.kind == OpKind::kAllreduce && b.kind == OpKind::kAllreduce && a.dtype == b.dtype && a.op == b.op;
}

// Id, length of the name, name.
size_t encoded_bytes(const std::string& name) { return 2 * sizeof(uint32_t) + name.size(); }

}  // namespace

std::vector<std::string> pick_fusion(const TensorLedger& ledger, const FusionLimits& limits) {
  const std::string& first_name = ledger.ready_names().front();
  const Signature& first = ledger.entry(first_name).signature();
  std::vector<std::string> picked{first_name};
  uint64_t bytes = first.bytes();
  size_t response_bytes = encoded_bytes(first_name);
  for (const std::string& name : ledger.ready_names()) {
    const LedgerEntry& entry = ledger.entry(name);
    const uint64_t tensor_bytes = entry.signature().bytes();
    response_bytes += encoded_bytes(name);
    if (bytes >= limits.fusion_bytes || response_bytes > limits.max_response_bytes) {
      break;
    }
    const bool is_fitting = bytes + tensor_bytes <= limits.fusion_bytes;
    if (name != first_name && is_fitting && entry.is_agreed() && is_fusable(first, entry.signature())) {
      picked.push_back(name);
      bytes += tensor_bytes;
    }
  }
  return picked;
}

}  // namespace ringtune
