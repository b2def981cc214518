// SPDX-License-Identifier: Apache-2.0
// Allgather and alltoall by NCCL: rows whose number differs between ranks.
//
// The ranks exchange their numbers of rows over the host, then each knows the size of its result and has the GPU's
// memory for it before the first row moves. The caller takes the rows from there once it waits.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/collective_context.h"
#include "device/device_memory.h"
#include "device/nccl/nccl_communicator.h"
#include "engine/submissions/submission.h"

namespace ringtune {

// Makes the tensor's result: its rows, and memory that `user` may write to. All ranks do so at the same time.
Status make_room_for_rows(Submission& tensor, size_t chunk_bytes, CollectiveContext& host, DeviceMemoryPool& memory,
                          cuda::Stream user);

// In a group: the rows, to where the result has them.
Status enqueue_rows(const Submission& tensor, int rank, NcclCommunicator& communicator, NcclStream stream);

// The rows are in place, or no work writes to their place any more.
void set_rows_filled(const Submission& tensor, const std::shared_ptr<DeviceEvent>& filled);

}  // namespace ringtune
