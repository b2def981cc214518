// SPDX-License-Identifier: Apache-2.0
#include "telemetry/track_names.h"

namespace ringtune {

TrackId TrackNames::find_or_add(std::string_view name) {
  if (const auto found = tracks_.find(name); found != tracks_.end()) {
    return found->second;
  }
  if (tracks_.size() == kMaxTracks) {
    return kNoTrack;
  }
  const std::lock_guard lock(mutex_);
  names_.emplace_back(name);
  const auto track = static_cast<TrackId>(names_.size());
  tracks_.emplace(names_.back(), track);
  return track;
}

std::string TrackNames::name(TrackId track) const {
  const std::lock_guard lock(mutex_);
  return names_[track - 1];
}

}  // namespace ringtune
