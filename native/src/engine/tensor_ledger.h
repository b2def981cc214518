// SPDX-License-Identifier: Apache-2.0
// The coordinator's account of which ranks have submitted which tensor, which ranks have joined, and what is ready.
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
  std::vector<ArenaOffset> places;    // by rank, likewise
  std::vector<bool> has_submitted;
  int submitted = 0;
  int first_rank = 0;    // of those that have submitted it
  int64_t first_ns = 0;  // when that was
  bool is_warned = false;
  bool is_complete = false;                         // no rank is waited for
  std::string error;                                // of a complete one: why it cannot run
  std::list<std::string>::iterator ready_position;  // where it is ready

  const Signature& signature() const { return signatures[static_cast<size_t>(first_rank)]; }
  bool is_agreed() const;
  // Whether it lies at one offset of every rank's arena.
  bool is_registered() const;
  std::vector<int> ranks_without() const;
  // "allreduce(sum) float32 [3] on ranks 0, 2; allreduce(sum) float32 [4] on rank 1"
  std::string describe_signatures() const;
};

class TensorLedger {
 public:
  explicit TensorLedger(int world_size);

  // False if this rank has submitted the name before and it is still pending, or has joined.
  bool add(int rank, const std::string& name, const Signature& signature, ArenaOffset place, int64_t now_ns);
  // The rank submits nothing more until all have joined; false if it has joined already.
  bool join(int rank);
  int joined_count() const { return joined_count_; }
  bool have_all_joined() const { return joined_count_ == world_size_; }
  std::vector<int> ranks_not_joined() const;
  int last_joined_rank() const { return last_joined_rank_; }
  // All have joined and were told: a new round of data begins.
  void reset_joined();

  // Tensors that can go now, oldest first; those of a group stand side by side. The caller takes them out by `remove`.
  const std::list<std::string>& ready_names() const { return ready_names_; }
  const LedgerEntry& entry(const std::string& name) const { return entries_.at(name); }
  void remove(const std::vector<std::string>& names);

  // The ranks that an entry waits for: joined ones are not waited for.
  std::vector<int> missing_ranks(const LedgerEntry& entry) const;

  std::unordered_map<std::string, LedgerEntry>& entries() { return entries_; }

 private:
  struct Group {
    std::vector<std::string> complete;
    size_t size = 0;
    size_t released = 0;  // after an error the members go one by one
    std::string error;
  };

  void complete_if_nobody_is_missing(LedgerEntry& entry);
  std::string find_error(const LedgerEntry& entry) const;
  void release(LedgerEntry& entry);
  void add_to_group(LedgerEntry& entry, const Signature& member);

  int world_size_;
  std::unordered_map<std::string, LedgerEntry> entries_;
  std::unordered_map<std::string, Group> groups_;
  std::list<std::string> ready_names_;
  std::vector<bool> has_joined_;
  int joined_count_ = 0;
  int last_joined_rank_ = 0;
};

}  // namespace ringtune
