// SPDX-License-Identifier: Apache-2.0
#include "bindings/submission_door.h"

#include <string>

#include "bindings/engine_handle.h"
#include "bindings/errors.h"

namespace ringtune {
namespace {

// Tells how an operation ended.
void tell(RingtuneOnEnd on_end, void* context, const Status& status) {
  const std::string error = std::string(error_class_name(status.code())) + ": " + status.message();
  on_end(context, status.ok() ? nullptr : error.c_str());
}

}  // namespace

const RingtuneSubmissionTable SubmissionDoor::kTable{kRingtuneSubmissionVersion, &SubmissionDoor::allreduce,
                                                     &SubmissionDoor::mark_step};

SubmissionDoor::SubmissionDoor(EngineHandle& owner) : RingtuneDoor{&kTable}, owner_(&owner) {}

void SubmissionDoor::close() {
  const std::lock_guard lock(mutex_);
  owner_ = nullptr;
}

void SubmissionDoor::allreduce(RingtuneDoor* door, const RingtuneAllreduce* request, RingtuneOnEnd on_end,
                               void* context) {
  const Status status = static_cast<SubmissionDoor*>(door)->submit(*request, on_end, context);
  if (!status.ok()) {
    tell(on_end, context, status);
  }
}

Status SubmissionDoor::submit(const RingtuneAllreduce& request, RingtuneOnEnd on_end, void* context) {
  if (request.dtype >= kDataTypeCount || request.reduction >= kReduceOpCount) {
    return {StatusCode::kConfigError, "'" + std::string(request.name) + "' has dtype " + std::to_string(request.dtype) +
                                          " and reduction " + std::to_string(request.reduction) +
                                          ", of which one is no number of the engine's"};
  }
  const TensorArguments tensor{request.name,
                               request.input,
                               request.output,
                               {request.shape, request.shape + request.dimensions},
                               static_cast<DataType>(request.dtype),
                               request.group,
                               request.group_size};
  const ReduceArguments reduce{static_cast<ReduceOp>(request.reduction), request.prescale, request.postscale};
  const std::lock_guard lock(mutex_);
  if (owner_ == nullptr) {
    return {StatusCode::kShutDown, "the engine was shut down before '" + tensor.name + "' was submitted"};
  }
  try {
    return owner_->engine().allreduce_async(tensor, reduce, request.is_gradient != 0,
                                            [on_end, context](const Status& status) { tell(on_end, context, status); });
  } catch (const StatusException& error) {  // in a forked child
    return error.status();
  }
}

void SubmissionDoor::mark_step(RingtuneDoor* door) {
  auto* self = static_cast<SubmissionDoor*>(door);
  const std::lock_guard lock(self->mutex_);
  if (self->owner_ == nullptr) {
    return;
  }
  try {
    self->owner_->engine().mark_step();
  } catch (const StatusException&) {  // in a forked child: what it submitted was refused already
    return;
  }
}

}  // namespace ringtune
