// SPDX-License-Identifier: Apache-2.0
// The coordinator's account of which ranks have submitted which tensor.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "wire/messages.h"

namespace ringtune {

struct LedgerEntry {
  std::string name;
  std::vector<Signature> signatures;  // by rank; meaningful where has_submitted
  std::vector<bool> has_submitted;
  int submitted = 0;
  int64_t first_ns = 0;  // when the first rank submitted it
  bool is_warned = false;
  std::list<std::string>::iterator ready_position;  // where it is ready

  bool is_ready() const { return submitted == static_cast<int>(has_submitted.size()); }
  bool is_agreed() const;
  const Signature& signature() const { return signatures[0]; }
  std::vector<int> missing_ranks() const;
  // "allreduce(sum) float32 [3] on ranks 0, 2; allreduce(sum) float32 [4] on rank 1"
  std::string describe_signatures() const;
};

class TensorLedger {
 public:
  explicit TensorLedger(int world_size) : world_size_(world_size) {}

  // False if this rank has submitted the name before and it is still pending.
  bool add(int rank, const std::string& name, const Signature& signature, int64_t now_ns);

  // Tensors that all ranks have submitted, oldest first; the caller takes them out with `remove`.
  const std::list<std::string>& ready_names() const { return ready_names_; }
  const LedgerEntry& entry(const std::string& name) const { return entries_.at(name); }
  void remove(const std::vector<std::string>& names);

  std::unordered_map<std::string, LedgerEntry>& entries() { return entries_; }

 private:
  int world_size_;
  std::unordered_map<std::string, LedgerEntry> entries_;
  std::list<std::string> ready_names_;
};

}  // namespace ringtune
