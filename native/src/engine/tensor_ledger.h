// SPDX-License-Identifier: Apache-2.0
// The coordinator's account of which ranks have submitted which tensor, which have joined, and which tensors are ready.
//
// A tensor that has a cache id keeps its entry for good: a request by that id costs a bit and a count, no look-up of
// its name.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/response_cache.h"
#include "wire/messages.h"

namespace ringtune {

struct LedgerEntry {
  // Request of a rank that did not use the cache id.
  struct FullRequest {
    int rank;
    size_t variant;  // number of the signature
    ArenaOffset place;
  };

  // Members that every request touches come first, in one cache line.
  std::vector<bool> has_submitted;  // one per rank
  int submitted = 0;
  bool is_complete = false;  // no rank is waited for
  bool is_warned = false;
  int64_t first_ns = 0;  // when the first rank submitted it
  std::string name;
  CacheId cache_id = kNoCacheId;     // set for an entry that is kept
  std::vector<Signature> variants;   // different signatures; first that of the cache id, where there is one
  std::vector<FullRequest> in_full;  // for others that have submitted it, the first variant and cached place hold
  // Of a complete one:
  size_t variant = 0;                          // the one that a rank has submitted
  ArenaOffset place = kNotInArena;             // offset in every rank's arena, if it is the same
  std::string error;                           // reason why it cannot run
  std::list<LedgerEntry*>::iterator position;  // among those that wait, or are ready

  const Signature& signature() const { return variants[variant]; }
  bool is_registered() const { return place != kNotInArena; }
  bool is_by_id_alone() const { return cache_id != kNoCacheId && in_full.empty(); }
  // Variant of each rank; meaningful where it has submitted.
  std::vector<size_t> variants_by_rank() const;
  std::vector<int> ranks_without() const;
  // "allreduce(sum) float32 [3] on ranks 0, 2; allreduce(sum) float32 [4] on rank 1"
  std::string describe_signatures() const;
};

class TensorLedger {
 public:
  TensorLedger(int world_size, const ResponseCache& cache);

  // Both are false if one of these ranks has submitted the tensor before and it is still pending, or has joined; the
  // second also for an id that stands for no tensor, or for none any more.
  bool add(int rank, const RequestItem& item, int64_t now_ns);
  bool add_cached(std::span<const int> ranks, CacheId id, int64_t now_ns);
  // The rank submits no more tensors until all have joined; false if it has joined already.
  bool join(int rank);
  int joined_count() const { return joined_count_; }
  bool have_all_joined() const { return joined_count_ == world_size_; }
  std::vector<int> ranks_not_joined() const;
  int last_joined_rank() const { return last_joined_rank_; }
  // All have joined and were notified: a new round of data begins.
  void reset_joined();

  // Tensors that can go now, oldest first; those of a group stand side by side. The caller takes them out by `remove`.
  const std::list<LedgerEntry*>& ready() const { return ready_; }
  void remove(const std::vector<LedgerEntry*>& entries);
  // Those that cannot, in the order in which they were begun.
  const std::list<LedgerEntry*>& waiting() const { return waiting_; }

  // Place of each rank; kNotInArena where it has not submitted one.
  std::vector<ArenaOffset> places(const LedgerEntry& entry) const;
  // The ranks that an entry waits for: joined ones are not waited for.
  std::vector<int> missing_ranks(const LedgerEntry& entry) const;
  // Those that wait for the same ranks as a waiting entry, or, where no rank is missing, for the rest of the same
  // group, and have waited for at least half as long; itself included, in the order in which they were begun.
  std::vector<LedgerEntry*> waiting_like(const LedgerEntry& entry, int64_t now_ns) const;

 private:
  struct Group {
    std::vector<LedgerEntry*> complete;
    size_t size = 0;
    size_t released = 0;  // after an error the members go one by one
    std::string error;
  };

  LedgerEntry& entry_of(const std::string& name);
  LedgerEntry& cached_entry(CacheId id);
  bool take(LedgerEntry& entry, std::span<const int> ranks, int64_t now_ns);
  void complete_if_nobody_is_missing(LedgerEntry& entry);
  std::string find_error(const LedgerEntry& entry, bool is_differing) const;
  void release(LedgerEntry& entry);
  void add_to_group(LedgerEntry& entry, const Signature& member);

  int world_size_;
  const ResponseCache& cache_;
  std::vector<std::unique_ptr<LedgerEntry>> cached_;  // index: id - 1
  std::unordered_map<std::string, LedgerEntry> named_;
  std::unordered_map<std::string, Group> groups_;
  std::list<LedgerEntry*> waiting_;
  std::list<LedgerEntry*> ready_;
  std::vector<bool> has_joined_;
  int joined_count_ = 0;
  int last_joined_rank_ = 0;
};

}  // namespace ringtune
