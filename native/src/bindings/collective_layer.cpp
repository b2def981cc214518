// SPDX-License-Identifier: Apache-2.0
#include "bindings/collective_layer.h"

#include <utility>

#include "base/clock.h"
#include "base/config.h"
#include "collectives/algorithm_table.h"

namespace ringtune {

CollectiveLayer::CollectiveLayer(std::shared_ptr<Segment> segment, int rank, int world_size, double timeout_s)
    : layout_(Layout::one_host(rank, world_size)),
      arenas_(segment->arenas()),
      arena_(arenas_ == nullptr ? nullptr : std::make_shared<Arena>(arenas_, rank)),
      stage_(std::move(segment), layout_, seconds_to_ns(timeout_s), nullptr, &laps_) {}

Status CollectiveLayer::allocate_registered(size_t bytes, std::shared_ptr<std::byte>& memory) {
  if (arena_ == nullptr) {
    return {StatusCode::kConfigError, "there is no registered memory: the address space is limited (ulimit -v)"};
  }
  return arena_->allocate(bytes, memory);
}

Status CollectiveLayer::allreduce(std::byte* data, size_t elements, DataType dtype, int calls) {
  const size_t bytes = elements * element_bytes(dtype);
  const EngineConfig config;
  const AlgorithmTable table(layout_);
  const Reduction reduction{.dtype = dtype, .op = ReduceOp::kSum, .ranks = layout_.world_size()};
  const bool is_registered = arena_ != nullptr && arena_->offset_of(data, bytes) != kNotInArena;
  const TensorMemory memory = is_registered ? TensorMemory::kRegistered : TensorMemory::kAny;
  CollectiveContext context{layout_, stage_, nullptr, arenas_.get()};
  for (int call = 0; call < calls; ++call) {
    // Per call, as the engine does it per response.
    GatherList list;
    list.add(data, data, bytes);
    const AllreduceChoice choice = choose_allreduce(config, table, layout_, memory, bytes);
    const AllreduceTask task{context, list, reduction, choice.chunk_bytes};
    if (Status s = allreduce_algorithms()[static_cast<size_t>(choice.algorithm)].run(task); !s.ok()) return s;
  }
  return Status::ok_status();
}

}  // namespace ringtune
