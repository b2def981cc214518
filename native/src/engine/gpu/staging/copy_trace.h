// SPDX-License-Identifier: Apache-2.0
// The copies between GPUs and the host in the timeline: a row for each direction of each GPU. No thread waits for a
// copy to draw it; its end is the time at which a poll found it over.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/submissions/submission.h"
#include "telemetry/timeline.h"

namespace ringtune {

// Used by the thread that does the engine's work.
class CopyTrace {
 public:
  explicit CopyTrace(Timeline& timeline) : timeline_(timeline) {}

  // Tensors whose copies to the host are over. A span holds the wait for the caller's stream, too.
  void end_to_host(std::span<const Submission> tensors, int64_t now_ns);
  // Tensors whose copies to their GPUs were begun.
  void begin_to_device(std::span<const Submission> tensors, int64_t now_ns);
  // Draws those that are over by now.
  void look(int64_t now_ns);
  bool empty() const { return under_way_.empty(); }

 private:
  struct UnderWay {
    std::shared_ptr<DeviceEvent> end;
    int64_t begin_ns;
    uint64_t bytes;
    uint32_t tensors;
  };
  struct Row {
    std::string name;
    int64_t end_ns = 0;  // end of its last span
  };

  Row& row_of(int device, bool is_to_host);
  void draw(Row& row, const UnderWay& copies, bool is_to_host, int64_t now_ns);

  Timeline& timeline_;
  std::map<std::pair<int, bool>, Row> rows_;
  std::deque<UnderWay> under_way_;  // to devices
};

}  // namespace ringtune
