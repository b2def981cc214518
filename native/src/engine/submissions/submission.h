// SPDX-License-Identifier: Apache-2.0
// A caller's submission to the engine: a named tensor and the operation on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/gathered.h"
#include "telemetry/trace_record.h"
#include "wire/messages.h"

namespace ringtune {

class DeviceEvent;
struct StagedTensor;

using Handle = uint64_t;
inline constexpr Handle kNoHandle = 0;

// The one name that a rank's join goes by.
inline constexpr const char* kJoinName = "join";

struct Submission {
  Handle handle = kNoHandle;
  std::string name;
  Signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  size_t offered_bytes = 0;                // size of the output, where the result's size is not known before
  ArenaOffset arena_offset = kNotInArena;  // set if input and output are one range of this rank's arena
  int64_t rows = 1;                        // this rank's, where the kind is ragged
  std::vector<int64_t> splits;             // alltoall: rows for each rank
  std::shared_ptr<Gathered> result;        // made where the caller has no output buffer
  TrackId track = kNoTrack;                // its row in the timeline
  // Of a GPU's tensor, whose input and output lie in host memory while the engine has it:
  std::shared_ptr<StagedTensor> staged;
  std::shared_ptr<DeviceEvent> done;  // the end of the copy back, once it is under way

  // Size of this rank's input.
  uint64_t bytes() const {
    return is_ragged(signature.kind) ? static_cast<uint64_t>(rows) * signature.bytes() : signature.bytes();
  }
};

}  // namespace ringtune
