// SPDX-License-Identifier: Apache-2.0
#include "engine/executor.h"

#include <string>

#include "collectives/allreduce.h"
#include "collectives/data_movement.h"
#include "collectives/gather_list.h"

namespace ringtune {

Status Executor::run(const Response& response, const std::vector<Submission>& tensors) {
  counters_.add(Counter::kResponses);
  counters_.add(Counter::kTensors, tensors.size());
  return tensors.front().signature.kind == OpKind::kAllreduce ? allreduce(response, tensors)
                                                              : move(response, tensors.front());
}

Status Executor::allreduce(const Response& response, const std::vector<Submission>& tensors) {
  if (response.algorithm >= allreduce_algorithms().size()) {
    return {StatusCode::kConfigError, "allreduce algorithm number " + std::to_string(response.algorithm) +
                                          " is unknown here; all ranks must run one version"};
  }
  GatherList data;
  for (const Submission& tensor : tensors) {
    data.add(tensor.input, tensor.output, tensor.signature.bytes());
  }
  const Signature& signature = tensors.front().signature;
  counters_.add(Counter::kBytesReduced, data.bytes());
  counters_.add(Counter::kChunks, chunk_count(data.bytes(), response.chunk_bytes));
  counters_.add_algorithm_use(response.algorithm);
  return allreduce_algorithms()[response.algorithm].run(
      {data, signature.dtype, signature.op, response.chunk_bytes, stage_});
}

Status Executor::move(const Response& response, const Submission& tensor) {
  if (tensor.signature.kind == OpKind::kBarrier) {
    return barrier(stage_, response.chunk_bytes);
  }
  const MovementTask task{tensor.input, tensor.output, tensor.signature.bytes(), response.chunk_bytes, stage_};
  counters_.add(Counter::kChunks, chunk_count(task.bytes, task.chunk_bytes));
  return tensor.signature.kind == OpKind::kBroadcast ? broadcast(task, tensor.signature.root_rank) : allgather(task);
}

}  // namespace ringtune
