// SPDX-License-Identifier: Apache-2.0
// Reducescatter by NCCL, also of rows whose number is no multiple of the ranks'.
#pragma once

#include "device/nccl/nccl_communicator.h"
#include "device/pack_kernels.h"
#include "engine/submissions/submission.h"
#include "transport/layout.h"

namespace ringtune {

// In a group.
Status enqueue_reducescatter(const Submission& tensor, const NcclReduction& reduction, const Layout& layout,
                             NcclCommunicator& communicator, NcclStream stream);

// This rank's part of the result.
DeviceArray own_rows_of(const Submission& tensor, const Layout& layout);

}  // namespace ringtune
