// SPDX-License-Identifier: Apache-2.0
// Checks of a submission, before other ranks hear of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/submissions/submission.h"

namespace ringtune {

Status check_submission(const Submission& submission);
Status check_reduction(const TensorArguments& tensor, const ReduceArguments& reduce);
// Checks the rows that an alltoall sends to each rank.
Status check_splits(const TensorArguments& tensor, const std::vector<int64_t>& splits, int world_size);

}  // namespace ringtune
