// SPDX-License-Identifier: Apache-2.0
#include "engine/executor.h"

#include <algorithm>
#include <string>

#include "collectives/adasum.h"
#include "collectives/allgather.h"
#include "collectives/allreduce.h"
#include "collectives/alltoall.h"
#include "collectives/barrier.h"
#include "collectives/broadcast.h"
#include "collectives/gather_list.h"
#include "collectives/message_sizes.h"
#include "collectives/reduce_kernels.h"
#include "collectives/reducescatter.h"

namespace ringtune {
namespace {

Reduction reduction_of(const Signature& signature, int ranks) {
  return {signature.dtype, signature.op, signature.prescale, signature.postscale, ranks};
}

TensorMemory memory_of(const std::vector<Submission>& tensors) {
  const auto is_elsewhere = [](const Submission& tensor) { return tensor.arena_offset == kNotInArena; };
  return std::any_of(tensors.begin(), tensors.end(), is_elsewhere) ? TensorMemory::kAny : TensorMemory::kRegistered;
}

// The rows go to the caller's output if they fill it.
std::shared_ptr<Gathered> new_result(const Submission& tensor) {
  auto result = std::make_shared<Gathered>();
  if (tensor.offered_bytes > 0) {
    result->offered = {tensor.output, tensor.offered_bytes};
  }
  return result;
}

int64_t rows_of(const Signature& signature) { return signature.shape.front(); }

size_t row_elements_of(const Signature& signature) {
  size_t elements = 1;
  for (size_t i = 1; i < signature.shape.size(); ++i) {
    elements *= static_cast<size_t>(signature.shape[i]);
  }
  return elements;
}

}  // namespace

void Executor::set_config(const EngineConfig& config) {
  if (links_ != nullptr) {
    links_->use_connections(config.connections);
  }
  may_round_ = config.wire == kWireBf16;
}

Status Executor::run(const Response& response, std::vector<Submission>& tensors) {
  counters_.add(Counter::kResponses);
  counters_.add(Counter::kTensors, tensors.size());
  const Signature& signature = tensors.front().signature;
  CollectiveContext context = make_context();
  bool is_done = false;
  if (Status s = gpu_.run(response, tensors, context, is_done); !s.ok() || is_done) return s;
  if (signature.kind == OpKind::kAllreduce && signature.op != ReduceOp::kAdasum) {
    return allreduce(response, tensors);
  }
  counters_.add(Counter::kChunks, chunk_count(tensors.front().bytes(), response.chunk_bytes));
  return run_alone(response, tensors.front());
}

Status Executor::allreduce(const Response& response, const std::vector<Submission>& tensors) {
  const auto algorithms = allreduce_algorithms();
  if (response.algorithm >= algorithms.size() ||
      !can_run(algorithms[response.algorithm], layout_, memory_of(tensors))) {
    return {StatusCode::kConfigError, "allreduce algorithm number " + std::to_string(response.algorithm) +
                                          " cannot run here; all ranks must run one version"};
  }
  GatherList data;
  for (const Submission& tensor : tensors) {
    data.add(tensor.input, tensor.output, tensor.bytes());
  }
  const Signature& signature = tensors.front().signature;
  const bool is_rounded = may_round_ && signature.is_gradient;
  const AllreduceAlgorithm& algorithm = algorithms[response.algorithm];
  const bool may_skew = !shares_.is_even() && algorithm.run == &hierarchical_allreduce;
  const size_t chunk_bytes = may_skew ? skewed_chunk_bytes(response.chunk_bytes, data.bytes()) : response.chunk_bytes;
  counters_.add(Counter::kBytesReduced, data.bytes());
  counters_.add(Counter::kChunks, chunk_count(data.bytes(), chunk_bytes));
  counters_.add_algorithm_use(response.algorithm);
  const Reduction reduction = reduction_of(signature, layout_.world_size());
  CollectiveContext context = make_context();
  const AllreduceTask task{context, data, reduction, chunk_bytes, is_rounded, response.in_flight_bytes};
  counters_.add(Counter::kRoundedAllreduces, static_cast<uint64_t>(is_rounded));
  if (may_skew && has_shares(task)) {
    counters_.add(Counter::kSkewedAllreduces);
  }
  return algorithm.run(task);
}

size_t Executor::skewed_chunk_bytes(size_t chunk_bytes, size_t bytes) const {
  const size_t smaller = std::max(kMinSkewedChunkBytes, round_up(bytes / kMinSkewedChunks, kCacheLine));
  return is_chunk_auto_ ? std::min(chunk_bytes, smaller) : chunk_bytes;
}

Status Executor::run_alone(const Response& response, Submission& tensor) {
  CollectiveContext context = make_context();
  const Signature& signature = tensor.signature;
  const Reduction reduction = reduction_of(signature, layout_.world_size());
  const size_t chunk_bytes = response.chunk_bytes;
  switch (signature.kind) {
    case OpKind::kAllreduce:
      counters_.add(Counter::kBytesReduced, tensor.bytes());
      return adasum({context, reduction, tensor.input, tensor.output, signature.elements(), chunk_bytes});
    case OpKind::kReducescatter:
      counters_.add(Counter::kBytesReduced, tensor.bytes());
      return reducescatter({context, reduction, tensor.input, tensor.output, rows_of(signature),
                            row_elements_of(signature), chunk_bytes});
    case OpKind::kBroadcast:
      return broadcast({context, tensor.output, tensor.bytes(), signature.root_rank, chunk_bytes});
    case OpKind::kAllgather:
      counters_.add(Counter::kAllgathers);
      tensor.result = new_result(tensor);
      return allgather({context, tensor.input, tensor.rows, signature.bytes(), response.algorithm != 0, chunk_bytes},
                       *tensor.result);
    case OpKind::kAlltoall:
      tensor.result = new_result(tensor);
      return alltoall({context, tensor.input, tensor.splits, signature.bytes(), chunk_bytes, response.algorithm != 0},
                      *tensor.result);
    case OpKind::kBarrier:
    case OpKind::kJoin:  // has a response of its own
      break;
  }
  return barrier(context, chunk_bytes);
}

}  // namespace ringtune
