// SPDX-License-Identifier: Apache-2.0
#include "engine/stall_watch.h"

#include <algorithm>
#include <string_view>

#include "base/clock.h"
#include "base/text.h"
#include "transport/peer_name.h"

namespace ringtune {
namespace {

constexpr int64_t kLookNs = kNsPerS / 4;

// Opening of the names of tensors that ringtune itself submits; no reader of a message knows them.
constexpr std::string_view kOwnName = "ringtune.";

bool is_own(const LedgerEntry* entry) { return entry->name.starts_with(kOwnName); }

// Entries that wait for the same ranks, the first of which has waited longest. Those that no rank is missing from, and
// that are still there, wait for the rest of their group.
std::string describe_wait(const std::vector<LedgerEntry*>& entries, const std::vector<int>& missing) {
  const auto named = std::ranges::find_if_not(entries, is_own);
  const LedgerEntry& entry = named == entries.end() ? *entries.front() : **named;
  const auto count = entries.size() - static_cast<size_t>(std::ranges::count_if(entries, is_own));
  std::string what = is_own(&entry) ? "the step of an optimizer" : "tensor '" + entry.name + "'";
  if (missing.empty()) {
    return what + " waits for the other tensors of group '" + entry.signature().group + "', which has " +
           std::to_string(entry.signature().group_size);
  }
  if (count > 1) {
    what = std::to_string(count) + " tensors, '" + entry.name + "' and others,";
  }
  return what + (count > 1 ? " wait for " : " waits for ") + format_ranks(missing) + " (" +
         std::to_string(entry.submitted) + " of " + std::to_string(entry.has_submitted.size()) +
         " ranks have submitted " + (count > 1 ? "them)" : "it)");
}

}  // namespace

StallWatch::StallWatch(Transport& transport, const Layout& layout, const TensorLedger& ledger, StallLimits limits,
                       const Log& log)
    : transport_(transport), layout_(layout), ledger_(ledger), limits_(limits), log_(log) {}

void StallWatch::look(int64_t now_ns) {
  if (now_ns < next_look_ns_ || (ledger_.waiting().empty() && ledger_.joined_count() == 0)) {
    return;
  }
  next_look_ns_ = now_ns + kLookNs;
  watch_tensors(now_ns);
  watch_departures();
}

void StallWatch::watch_tensors(int64_t now_ns) {
  for (const LedgerEntry* entry : ledger_.waiting()) {
    const int64_t age_ns = now_ns - entry->first_ns;
    if (age_ns >= limits_.timeout_ns) {
      const std::vector<int> missing = ledger_.missing_ranks(*entry);
      fail_overdue(missing,
                   describe_wait(ledger_.waiting_like(*entry, now_ns), missing) + " since " + format_seconds(age_ns));
      return;
    }
    if (age_ns >= limits_.stall_warn_ns && !entry->is_warned) {
      warn_of_stall(*entry, now_ns);
    }
  }
}

// One warning for all tensors that wait for the same ranks, and for later ones while some of these still wait.
void StallWatch::warn_of_stall(const LedgerEntry& overdue, int64_t now_ns) {
  const std::vector<LedgerEntry*> alike = ledger_.waiting_like(overdue, now_ns);
  const bool is_known = std::ranges::any_of(alike, &LedgerEntry::is_warned);
  for (LedgerEntry* entry : alike) {
    entry->is_warned = true;
  }
  if (!is_known) {
    log_.write(LogLevel::kWarning, describe_wait(alike, ledger_.missing_ranks(overdue)) + " since " +
                                       format_seconds(now_ns - overdue.first_ns) +
                                       "; the job ends at RINGTUNE_TIMEOUT_S = " + format_seconds(limits_.timeout_ns));
  }
}

// A missing rank may itself wait for one that has fallen silent.
void StallWatch::fail_overdue(const std::vector<int>& missing, const std::string& what) {
  const int silent = transport_.silent_rank();
  const int first_missing = missing.empty() ? kNoCulprit : missing.front();
  const std::string ways = links_ == nullptr || missing.empty() ? "" : links_->describe_unconfirmed(first_missing);
  const std::string cause = silent == kNoCulprit ? "" : describe_silence(transport_, layout_, {}, silent) + "; ";
  transport_.fail({StatusCode::kCollectiveTimeout, silent == kNoCulprit ? first_missing : silent,
                   cause + what + ", the limit is " + format_seconds(limits_.timeout_ns) + ways +
                       "; check what that rank does, or raise RINGTUNE_TIMEOUT_S"});
}

void StallWatch::watch_departures() {
  for (const LedgerEntry* entry : ledger_.waiting()) {
    fail_if_departed(ledger_.missing_ranks(*entry), "'" + entry->name + "'");
  }
  if (ledger_.joined_count() > 0) {
    fail_if_departed(ledger_.ranks_not_joined(), "join");
  }
}

void StallWatch::fail_if_departed(const std::vector<int>& missing, const std::string& what) {
  for (const int rank : missing) {
    if (transport_.has_departed(rank)) {
      transport_.fail({StatusCode::kPeerLostError, rank,
                       "rank " + std::to_string(rank) + " left the job (shutdown) while other ranks wait for it in " +
                           what + "; all ranks must run the same number of steps"});
      return;
    }
  }
}

}  // namespace ringtune
