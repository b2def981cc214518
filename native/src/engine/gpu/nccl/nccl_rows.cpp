// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_rows.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "collectives/row_exchange.h"

namespace ringtune {
namespace {

size_t sum_of(std::span<const int64_t> rows) {
  return static_cast<size_t>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
}

Status exchange_rows(const Submission& tensor, size_t chunk_bytes, const CollectiveContext& host,
                     std::vector<int64_t>& rows) {
  if (tensor.signature.kind == OpKind::kAllgather) {
    return gather_numbers(host, {&tensor.rows, 1}, rows, chunk_bytes);
  }
  std::vector<int64_t> all;
  if (Status s = gather_numbers(host, tensor.splits, all, chunk_bytes); !s.ok()) return s;
  const auto ranks = static_cast<size_t>(host.world_size());
  for (size_t from = 0; from < ranks; ++from) {
    rows.push_back(all[from * ranks + static_cast<size_t>(host.rank())]);
  }
  return Status::ok_status();
}

// Parts of memory, one after the other.
template <typename Byte>
std::vector<std::span<Byte>> parts_of(Byte* memory, std::span<const int64_t> rows, size_t row_bytes) {
  std::vector<std::span<Byte>> parts;
  for (const int64_t of_rank : rows) {
    const size_t bytes = static_cast<size_t>(of_rank) * row_bytes;
    parts.emplace_back(memory, bytes);
    memory += bytes;
  }
  return parts;
}

// The caller's memory, where it fits, or the engine's.
std::byte* memory_of(const Gathered& result) {
  return result.on_device != nullptr ? result.on_device->data() : result.data();
}

size_t bytes_of(const Gathered& result) {
  return result.on_device != nullptr ? result.on_device->bytes() : result.bytes();
}

Status allgather(const Submission& tensor, int rank, NcclCommunicator& communicator, NcclStream stream) {
  const Gathered& result = *tensor.result;
  std::byte* const output = memory_of(result);
  if (std::ranges::adjacent_find(result.rows, std::ranges::not_equal_to()) == result.rows.end()) {
    return communicator.allgather({tensor.input, output, tensor.bytes()}, stream);
  }
  int root = 0;
  for (const std::span<std::byte> part : parts_of(output, result.rows, tensor.signature.bytes())) {
    if (!part.empty()) {
      const std::byte* const input = root == rank ? tensor.input : part.data();
      if (Status s = communicator.broadcast({input, part.data(), part.size()}, root, stream); !s.ok()) return s;
    }
    ++root;
  }
  return Status::ok_status();
}

Status alltoall(const Submission& tensor, NcclCommunicator& communicator, NcclStream stream) {
  const size_t row_bytes = tensor.signature.bytes();
  int peer = 0;
  for (const std::span<const std::byte> part : parts_of(tensor.input, tensor.splits, row_bytes)) {
    if (!part.empty()) {
      if (Status s = communicator.send(part, peer, stream); !s.ok()) return s;
    }
    ++peer;
  }
  peer = 0;
  for (const std::span<std::byte> part : parts_of(memory_of(*tensor.result), tensor.result->rows, row_bytes)) {
    if (!part.empty()) {
      if (Status s = communicator.receive(part, peer, stream); !s.ok()) return s;
    }
    ++peer;
  }
  return Status::ok_status();
}

}  // namespace

Status make_room_for_rows(Submission& tensor, size_t chunk_bytes, CollectiveContext& host, DeviceMemoryPool& memory,
                          cuda::Stream user) {
  auto result = std::make_shared<Gathered>();
  if (Status s = exchange_rows(tensor, chunk_bytes, host, result->rows); !s.ok()) return s;
  const size_t bytes = sum_of(result->rows) * tensor.signature.bytes();
  result->offered = {tensor.output, tensor.offered_bytes};
  const bool is_offered = tensor.output != nullptr && bytes == tensor.offered_bytes;
  Status status = is_offered || bytes == 0 ? result->allocate(bytes) : memory.allocate(bytes, user, result->on_device);
  if (!status.ok()) {
    return {status.code(), "memory for the " + std::to_string(bytes) + " bytes of its result: " + status.message() +
                               "; RINGTUNE_GPU_OPERATIONS=host collects it in host memory"};
  }
  tensor.result = std::move(result);
  return Status::ok_status();
}

Status enqueue_rows(const Submission& tensor, int rank, NcclCommunicator& communicator, NcclStream stream) {
  if (tensor.signature.kind == OpKind::kAlltoall) {
    return alltoall(tensor, communicator, stream);
  }
  return bytes_of(*tensor.result) == 0 ? Status::ok_status() : allgather(tensor, rank, communicator, stream);
}

void set_rows_filled(const Submission& tensor, const std::shared_ptr<DeviceEvent>& filled) {
  if (tensor.result != nullptr && tensor.result->on_device != nullptr) {
    tensor.result->on_device->set_filled(filled);
  }
}

}  // namespace ringtune
