// SPDX-License-Identifier: Apache-2.0
#include "bindings/collective_layer.h"

#include <utility>

#include "base/clock.h"
#include "base/config.h"
#include "collectives/allreduce.h"

namespace ringtune {

CollectiveLayer::CollectiveLayer(std::shared_ptr<Segment> segment, int rank, int world_size, double timeout_s)
    : layout_(Layout::one_host(rank, world_size)),
      stage_(std::move(segment), layout_, seconds_to_ns(timeout_s), nullptr, &laps_) {}

Status CollectiveLayer::allreduce(float* data, size_t elements, int calls) {
  const size_t bytes = elements * sizeof(float);
  const EngineConfig config;
  const Reduction reduction{.dtype = DataType::kFloat32, .op = ReduceOp::kSum, .ranks = layout_.world_size()};
  Communicator comm{layout_, stage_, nullptr};
  for (int call = 0; call < calls; ++call) {
    // Per call, as the engine does it per response.
    GatherList list;
    list.add(reinterpret_cast<const std::byte*>(data), reinterpret_cast<std::byte*>(data), bytes);
    const auto row = static_cast<size_t>(choose_allreduce_algorithm(config, layout_, TensorMemory::kAny, bytes));
    const AllreduceTask task{comm, list, reduction, choose_chunk_bytes(config, layout_, bytes)};
    if (Status s = allreduce_algorithms()[row].run(task); !s.ok()) return s;
  }
  return Status::ok_status();
}

}  // namespace ringtune
