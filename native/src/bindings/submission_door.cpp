// SPDX-License-Identifier: Apache-2.0
#include "bindings/submission_door.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bindings/engine_handle.h"
#include "bindings/errors.h"
#include "bindings/signals.h"

namespace ringtune {
namespace {

// Tells how an operation ended.
void tell(RingtuneOnEnd on_end, void* context, const Status& status) {
  const std::string error = std::string(error_class_name(status.code())) + ": " + status.message();
  on_end(context, status.ok() ? nullptr : error.c_str());
}

std::string listed(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

// The end of a collective whose output has room for certain rows of each rank.
Status check_rows(const std::string& name, const std::vector<int64_t>& expected, const Outcome& outcome) {
  if (!outcome.status.ok() || outcome.result == nullptr || outcome.result->rows == expected) {
    return outcome.status;
  }
  return {StatusCode::kMismatchError, "'" + name + "' has " + listed(outcome.result->rows) +
                                          " rows from the ranks, where this rank's function has " + "the shape for " +
                                          listed(expected) +
                                          "; pad them to equal numbers, or call the collective outside"};
}

Status check_request(const RingtuneRequest& request, int world_size) {
  const std::string name = "'" + std::string(request.name) + "'";
  if (request.dtype >= kDataTypeCount || request.reduction >= kReduceOpCount ||
      request.collective > kRingtuneReducescatter) {
    return {StatusCode::kConfigError, name + " has collective " + std::to_string(request.collective) + ", dtype " +
                                          std::to_string(request.dtype) + " and reduction " +
                                          std::to_string(request.reduction) +
                                          ", of which one is no number of the engine's"};
  }
  const bool has_ranks = request.collective == kRingtuneAllgather || request.collective == kRingtuneAlltoall;
  if (has_ranks && request.ranks != static_cast<uint32_t>(world_size)) {
    return {StatusCode::kConfigError, name + " has the shape for " + std::to_string(request.ranks) +
                                          " ranks, and there are " + std::to_string(world_size) +
                                          "; a function that was compiled for another world must be compiled again"};
  }
  return Status::ok_status();
}

std::vector<int64_t> numbers(const int64_t* first, uint32_t count) {
  return first == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(first, first + count);
}

DeviceStream stream_of(const RingtuneRequest& request) {
  return request.is_on_gpu != 0 ? DeviceStream{request.gpu, request.stream} : DeviceStream{};
}

// Broadcasts the output in place.
Status broadcast(Engine& engine, const RingtuneRequest& request, const TensorArguments& tensor, OnEnd on_end) {
  const auto root = static_cast<int>(request.root_rank);
  if (request.input != request.output && request.is_on_gpu != 0) {
    return {StatusCode::kConfigError, "'" + tensor.name + "' is a broadcast on a GPU that is not in place"};
  }
  if (request.input != request.output && engine.rank() == root) {
    std::memcpy(request.output, request.input, request.output_bytes);
  }
  Handle forgotten = kNoHandle;
  return engine.broadcast_async(tensor, root, forgotten, std::move(on_end));
}

Status submit_to(Engine& engine, const RingtuneRequest& request, RingtuneOnEnd on_end, void* context) {
  if (Status s = check_request(request, engine.world_size()); !s.ok()) return s;
  const TensorArguments tensor{request.name,
                               request.input,
                               request.output,
                               numbers(request.shape, request.dimensions),
                               static_cast<DataType>(request.dtype),
                               request.group,
                               request.group_size,
                               stream_of(request),
                               request.output_bytes};
  const ReduceArguments reduce{static_cast<ReduceOp>(request.reduction), request.prescale, request.postscale};
  OnEnd on_result = [on_end, context](const Outcome& outcome) { tell(on_end, context, outcome.status); };
  OnEnd on_rows = [on_end, context, name = tensor.name, expected = numbers(request.rows_of, request.ranks)](
                      const Outcome& outcome) { tell(on_end, context, check_rows(name, expected, outcome)); };
  const bool is_gradient = request.is_gradient != 0;
  Handle forgotten = kNoHandle;
  switch (static_cast<RingtuneCollective>(request.collective)) {
    case kRingtuneAllreduce:
      return engine.allreduce_async(tensor, reduce, is_gradient, forgotten, std::move(on_result));
    case kRingtuneReducescatter:
      return engine.reducescatter_async(tensor, reduce, forgotten, std::move(on_result));
    case kRingtuneAllgather:
      return engine.allgather_async(tensor, is_gradient, forgotten, std::move(on_rows));
    case kRingtuneAlltoall:
      return engine.alltoall_async(tensor, numbers(request.rows_for, request.ranks), forgotten, std::move(on_rows));
    case kRingtuneBroadcast:
      break;
  }
  return broadcast(engine, request, tensor, std::move(on_result));
}

RingtuneWaited wait_in(Engine& engine, const std::function<bool()>& is_over, int64_t limit_ns) {
  while (!is_over() && now_ns() < limit_ns) {
    const int64_t look_ns = std::min(limit_ns, now_ns() + kSignalCheckNs);
    const bool has_stayed = engine.work_until(is_over, look_ns, &is_interrupted);
    const bool is_time = now_ns() >= look_ns;
    if ((!has_stayed || (is_time && !is_over())) && has_signal_raised()) {
      return kRingtuneRaised;
    }
    if (has_stayed && !is_time && !is_over()) {
      return kRingtuneBusy;
    }
  }
  return kRingtuneOver;
}

}  // namespace

const RingtuneSubmissionTable SubmissionDoor::kTable{kRingtuneSubmissionVersion, &SubmissionDoor::submit,
                                                     &SubmissionDoor::mark_step, &SubmissionDoor::wait};

SubmissionDoor::SubmissionDoor(EngineHandle& owner) : RingtuneDoor{&kTable}, owner_(&owner) {}

void SubmissionDoor::close() {
  const std::unique_lock lock(mutex_);
  owner_ = nullptr;
}

void SubmissionDoor::submit(RingtuneDoor* door, const RingtuneRequest* request, RingtuneOnEnd on_end, void* context) {
  const Status status = static_cast<SubmissionDoor*>(door)->enter(*request, on_end, context);
  if (!status.ok()) {
    tell(on_end, context, status);
  }
}

Status SubmissionDoor::enter(const RingtuneRequest& request, RingtuneOnEnd on_end, void* context) {
  const std::shared_lock lock(mutex_);
  if (owner_ == nullptr) {
    return {StatusCode::kShutDown, "the engine was shut down before '" + std::string(request.name) + "' was submitted"};
  }
  try {
    return submit_to(owner_->engine(), request, on_end, context);
  } catch (const StatusException& error) {  // in a forked child
    return error.status();
  }
}

void SubmissionDoor::mark_step(RingtuneDoor* door) {
  auto* self = static_cast<SubmissionDoor*>(door);
  const std::shared_lock lock(self->mutex_);
  if (self->owner_ == nullptr) {
    return;
  }
  try {
    self->owner_->engine().mark_step();
  } catch (const StatusException&) {  // in a forked child: its submissions were refused already
    return;
  }
}

RingtuneWaited SubmissionDoor::wait(RingtuneDoor* door, RingtuneIsDone is_done, void* context, int64_t timeout_ns) {
  auto* self = static_cast<SubmissionDoor*>(door);
  const std::shared_lock lock(self->mutex_);
  if (self->owner_ == nullptr) {
    return kRingtuneBusy;
  }
  try {
    return wait_in(self->owner_->engine(), [is_done, context] { return is_done(context) != 0; }, now_ns() + timeout_ns);
  } catch (const StatusException&) {  // in a forked child
    return kRingtuneBusy;
  }
}

}  // namespace ringtune
