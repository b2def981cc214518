// SPDX-License-Identifier: Apache-2.0
#include "engine/allreduce_timer.h"

#include <string>
#include <utility>
#include <vector>

#include "collectives/message_sizes.h"

namespace ringtune {

AllreduceTimer::AllreduceTimer(Transport& transport, const Layout& layout, Coordinator* coordinator, Progress& progress,
                               ProgressLoop& loop)
    : transport_(transport), layout_(layout), coordinator_(coordinator), progress_(progress), loop_(loop) {}

Status AllreduceTimer::begin(size_t max_bytes, bool& has_room) {
  timed_.emplace(progress_.make_context());
  return in_turn([&] { return timed_->begin(max_bytes, has_room); });
}

Status AllreduceTimer::run(TimedCalls calls, int64_t& elapsed_ns) {
  calls.in_flight_bytes = in_flight_bytes(transport_.round_trip_ns());
  if (!timed_) {
    return {StatusCode::kConfigError, "nothing can be timed before `begin`"};
  }
  if (Status s = timed_->check(calls); !s.ok()) return s;
  return in_turn([&] { return timed_->run(calls, elapsed_ns); });
}

Status AllreduceTimer::end() {
  if (!timed_) {
    timed_.emplace(progress_.make_context());
  }
  Status status = in_turn([&] { return timed_->end(); });
  timed_.reset();
  return status;
}

Status AllreduceTimer::follow() {
  TimedAllreduce timed(progress_.make_context());
  return in_turn([&] { return timed.follow(); });
}

Status AllreduceTimer::set_table(std::vector<TableRow> rows) {
  if (coordinator_ == nullptr) {
    return {StatusCode::kConfigError, "rank 0 alone has an algorithm table"};
  }
  AlgorithmTable table(layout_);
  if (Status s = table.replace(std::move(rows), layout_); !s.ok()) return s;
  return in_turn([&] {
    coordinator_->set_table(std::move(table));
    return Status::ok_status();
  });
}

Status AllreduceTimer::in_turn(const std::function<Status()>& work) {
  if (progress_.is_stopping()) {
    return {StatusCode::kShutDown, "the engine was shut down"};
  }
  Status status;
  loop_.in_turn([&] { status = work(); });
  if (!status.ok() && !transport_.failure()) {
    transport_.fail(
        {status.code(), transport_.rank(),
         "rank " + std::to_string(transport_.rank()) + " could not go on with timing allreduces: " + status.message()});
  }
  return status;
}

}  // namespace ringtune
