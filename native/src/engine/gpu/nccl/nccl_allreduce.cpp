// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_allreduce.h"

#include <algorithm>
#include <vector>

namespace ringtune {
namespace {

// Kernels read and write as much at once.
constexpr size_t kVectorBytes = 16;

cuda::DevicePointer pointer_of(const std::byte* memory) { return reinterpret_cast<cuda::DevicePointer>(memory); }

std::vector<uint64_t> elements_of(std::span<const Submission> tensors) {
  std::vector<uint64_t> elements;
  for (const Submission& tensor : tensors) {
    elements.push_back(tensor.signature.elements());
  }
  return elements;
}

std::vector<PackedTensor> pieces_of(const PackingRound& round, size_t element_bytes,
                                    const std::function<const std::byte*(size_t)>& memory_of) {
  std::vector<PackedTensor> pieces;
  for (const PackedPiece& piece : round.pieces) {
    const std::byte* first = memory_of(piece.tensor) + piece.first * element_bytes;
    pieces.push_back({pointer_of(first), piece.elements, piece.offset});
  }
  return pieces;
}

}  // namespace

Status NcclAllreduce::run(std::span<const Submission> tensors, const KernelScaling& scaling, const PackingWish& wish,
                          const SumBuffers& sum) {
  const size_t tensor_bytes = element_bytes(scaling.types.tensor);
  const size_t buffer_bytes = element_bytes(scaling.types.buffer);
  const PackingRule rule{can_pack() ? wish.largest_bytes / tensor_bytes : 0, wish.is_for_all || scaling.needs_buffer(),
                         buffer_bytes_ / buffer_bytes, kVectorBytes / std::min(tensor_bytes, buffer_bytes)};
  const PackingPlan plan = plan_packing(elements_of(tensors), rule);
  std::vector<NcclBuffers> buffers;
  std::vector<DeviceArray> outputs;
  for (const size_t number : plan.in_place) {
    const Submission& tensor = tensors[number];
    buffers.push_back({tensor.input, tensor.output, tensor.signature.elements()});
    outputs.push_back({pointer_of(tensor.output), tensor.signature.elements()});
  }
  if (plan.rounds.empty() && !buffers.empty()) {
    if (Status s = sum(buffers); !s.ok()) return s;
  }
  if (Status s = make_buffer(plan, wish.room_elements, buffer_bytes); !s.ok()) return s;
  for (const PackingRound& round : plan.rounds) {
    const auto sum_round = [&] {
      buffers.push_back({buffer_->data(), buffer_->data(), round.elements});
      const Status summed = sum(buffers);
      buffers.clear();  // the first round takes the tensors in place along
      return summed;
    };
    if (Status s = run_round(tensors, scaling, round, sum_round); !s.ok()) return s;
  }
  packed_tensors_ += plan.packed;
  return finish(scaling, outputs);
}

Status NcclAllreduce::run_round(std::span<const Submission> tensors, const KernelScaling& scaling,
                                const PackingRound& round, const std::function<Status()>& sum) {
  const size_t bytes = element_bytes(scaling.types.tensor);
  const cuda::DevicePointer buffer = pointer_of(buffer_->data());
  const auto inputs = pieces_of(round, bytes, [&](size_t number) { return tensors[number].input; });
  const auto outputs = pieces_of(round, bytes, [&](size_t number) { return tensors[number].output; });
  if (Status s = kernels_->gather(scaling.types, inputs, buffer, scaling.prescale, stream_); !s.ok()) return s;
  if (Status s = sum(); !s.ok()) return s;
  return kernels_->scatter(scaling.types, outputs, buffer, scaling.after_sum, stream_);
}

Status NcclAllreduce::finish(const KernelScaling& scaling, std::span<const DeviceArray> outputs) {
  if (outputs.empty() || !scaling.is_scaled_after()) {
    return Status::ok_status();
  }
  return kernels_->scale(scaling.types.tensor, outputs, scaling.after_sum, stream_);
}

Status NcclAllreduce::make_buffer(const PackingPlan& plan, uint64_t room_elements, size_t element_bytes) {
  uint64_t elements = 0;
  for (const PackingRound& round : plan.rounds) {
    elements = std::max(elements, round.elements + room_elements);
  }
  const size_t bytes = elements * element_bytes;
  if (bytes == 0 || (buffer_ != nullptr && bytes <= buffer_->bytes())) {
    return Status::ok_status();
  }
  std::shared_ptr<DeviceMemory> larger;
  if (Status s = memory_->allocate(bytes, stream_, larger); !s.ok()) {
    return {s.code(), "a buffer of " + std::to_string(bytes) + " bytes for tensors that are packed: " + s.message() +
                          "; RINGTUNE_GPU_OPERATIONS=host does without NCCL"};
  }
  buffer_ = std::move(larger);
  return Status::ok_status();
}

void NcclAllreduce::set_end(const std::shared_ptr<DeviceEvent>& end) {
  if (buffer_ != nullptr) {
    buffer_->set_filled(end);
  }
}

}  // namespace ringtune
