// SPDX-License-Identifier: Apache-2.0
// Times allreduces of an idle engine, in lockstep with the other ranks, and sets the algorithm table. Python chooses
// the calls and draws the conclusions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"
#include "collectives/algorithm_table.h"
#include "collectives/timed_allreduce.h"
#include "engine/coordinator.h"
#include "engine/progress.h"
#include "engine/progress_loop.h"
#include "transport/transport.h"

namespace ringtune {

// While rank 0 is between `begin` and `end`, every other rank is in `follow`, and no rank submits a tensor.
class AllreduceTimer {
 public:
  // `coordinator` is null except on rank 0.
  AllreduceTimer(Transport& transport, const Layout& layout, Coordinator* coordinator, Progress& progress,
                 ProgressLoop& loop);

  // Rank 0; see TimedAllreduce. Calls that cannot be made are refused before any rank hears of them.
  Status begin(size_t max_bytes, bool& has_room);
  // The calls have as many bytes in flight as a job would.
  Status run(TimedCalls calls, int64_t& elapsed_ns);
  Status end();
  // The other ranks.
  Status follow();

  // Rank 0: the table by which `auto` chooses from now on.
  Status set_table(std::vector<TableRow> rows);

 private:
  // Does the work in a turn; a failure is every rank's, for they wait in the collective.
  Status in_turn(const std::function<Status()>& work);

  Transport& transport_;
  const Layout& layout_;
  Coordinator* coordinator_;
  Progress& progress_;
  ProgressLoop& loop_;
  std::optional<TimedAllreduce> timed_;  // on rank 0, from `begin` to `end`
};

}  // namespace ringtune
