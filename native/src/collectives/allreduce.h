// SPDX-License-Identifier: Apache-2.0
// The registry of allreduce algorithms. A new one is one file and one row of the table in allreduce.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "collectives/gather_list.h"
#include "transport/shm/stage.h"

namespace ringtune {

struct AllreduceTask {
  const GatherList& data;
  DataType dtype;
  ReduceOp op;
  size_t chunk_bytes;  // a multiple of the cache line
  Stage& stage;
};

struct AllreduceAlgorithm {
  std::string_view name;
  std::string_view description;
  // `auto` takes the first row whose bound holds the message.
  size_t auto_max_bytes;
  Status (*run)(const AllreduceTask& task);
};

std::span<const AllreduceAlgorithm> allreduce_algorithms();

// The row's number, which is what travels; -1 for an unknown name.
int find_allreduce_algorithm(std::string_view name);
int auto_allreduce_algorithm(size_t bytes);

// What `chunk_bytes` = auto means for a message.
size_t auto_chunk_bytes(size_t bytes);

// Chunks of a message: at least one, so that empty tensors synchronize like others.
uint64_t chunk_count(size_t bytes, size_t chunk_bytes);

// One file each.
Status reduce_scatter_allgather(const AllreduceTask& task);
Status direct_allreduce(const AllreduceTask& task);

}  // namespace ringtune
