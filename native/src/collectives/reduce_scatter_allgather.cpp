// SPDX-License-Identifier: Apache-2.0
#include "collectives/staged_allreduce.h"

namespace ringtune {

// In one host every rank owns a block, and the result is ready when the host's contributions are reduced.
Status reduce_scatter_allgather(const AllreduceTask& task) {
  const auto reduce_block = [&task](std::span<const std::byte* const> sources, const ReductionTargets& targets,
                                    size_t elements) {
    reduce_in_rank_order(task.reduction, sources, targets, elements);
    return Status::ok_status();
  };
  return StagedAllreduce(task, task.comm.stage.local_size(), reduce_block).run();
}

}  // namespace ringtune
