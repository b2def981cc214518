// SPDX-License-Identifier: Apache-2.0
// Numbers for the names of a trace's rows, given once and kept.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "telemetry/trace_record.h"

namespace ringtune {

class TrackNames {
 public:
  // A trace of more rows cannot be read by anyone; a job that names every operation anew must not eat the memory.
  static constexpr size_t kMaxTracks = 1 << 16;

  // One thread alone. `kNoTrack` where the name is new and there is no more room.
  TrackId find_or_add(std::string_view name);

  // Any thread; the track is one that `find_or_add` has returned.
  std::string name(TrackId track) const;

 private:
  mutable std::mutex mutex_;       // guards names_; the adding thread may read them without it
  std::deque<std::string> names_;  // entry i belongs to track i + 1; they never move, tracks_ points into them
  std::unordered_map<std::string_view, TrackId> tracks_;
};

}  // namespace ringtune
