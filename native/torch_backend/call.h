// SPDX-License-Identifier: Apache-2.0
// A call of torch's, and the requests to the engine for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "bindings/submission_abi.h"

namespace ringtune_torch {

enum class Kind : uint8_t {
  kAllreduce,
  kAllreduceCoalesced,
  kBarrier,
  kBroadcast,
  kAllgather,
  kReducescatter,
  kAlltoall,
};

// The name that `ringtune.torch_backend.recipes` knows.
inline const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllreduce:
      return "all_reduce";
    case Kind::kAllreduceCoalesced:
      return "all_reduce_coalesced";
    case Kind::kBarrier:
      return "barrier";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllgather:
      return "all_gather_into_tensor";
    case Kind::kReducescatter:
      return "reduce_scatter_tensor";
    case Kind::kAlltoall:
      break;
  }
  return "all_to_all_single";
}

struct Call {
  Kind kind;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> inputs;  // the outputs, where they are combined in place
  std::chrono::milliseconds timeout;
  c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM;
  int64_t root = 0;
  std::vector<int64_t> taken = {};  // alltoall: elements from each rank
  std::vector<int64_t> sent = {};   // alltoall: elements to each rank
};

// Common part of equal calls, in Python's words: the text that ranks compare, and the engine's numbers.
struct Recipe {
  std::string text;
  std::vector<uint32_t> dtypes;
  uint32_t reduction;
  double prescale;
  double postscale;
};

// True if the engine can read and write the tensor as it lies there.
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
         !tensor.key_set().has(c10::DispatchKey::Python) && tensor.has_storage() && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && tensor.is_contiguous();
}

// True if each output has `size_of_output` elements for `size_of_input` of its input.
inline bool is_matching(const Call& call, int64_t size_of_output, int64_t size_of_input) {
  if (call.outputs.size() != call.inputs.size() || call.outputs.empty()) {
    return false;
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const at::Tensor& output = call.outputs[i];
    const at::Tensor& input = call.inputs[i];
    if (output.scalar_type() != input.scalar_type() ||
        output.numel() * size_of_input != input.numel() * size_of_output) {
      return false;
    }
  }
  return true;
}

// True if two of the tensors, which are contiguous, have an element in common.
inline bool share_memory(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() < 2) {
    return false;
  }
  std::vector<std::pair<const char*, const char*>> spans;
  spans.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) {
      const char* begin = static_cast<const char*>(tensor.const_data_ptr());
      spans.emplace_back(begin, begin + tensor.nbytes());
    }
  }
  std::ranges::sort(spans);
  const auto overlap = [](const auto& first, const auto& second) { return second.first < first.second; };
  return std::ranges::adjacent_find(spans, overlap) != spans.end();
}

// True if this form serves the call in a group of so many ranks; Python's serves all, and names faults.
inline bool is_served(const Call& call, int ranks) {
  if (!std::ranges::all_of(call.outputs, is_plain) || !std::ranges::all_of(call.inputs, is_plain) ||
      call.outputs.empty()) {
    return false;
  }
  switch (call.kind) {
    case Kind::kAllgather:
      return is_matching(call, ranks, 1);
    case Kind::kReducescatter:
      return is_matching(call, 1, ranks);
    case Kind::kAlltoall:
      return call.outputs[0].scalar_type() == call.inputs[0].scalar_type();
    default:
      return call.operation <= c10d::ReduceOp::MAX && !share_memory(call.outputs);
  }
}

// The engine's requests for a call, with the memory that they point to.
class Requests {
 public:
  Requests(const Call& call, const Recipe& recipe, const std::string& name, int ranks) : ranks_(ranks) {
    const size_t count = call.outputs.size();
    const bool has_indices = call.kind == Kind::kAllgather || call.kind == Kind::kReducescatter || count > 1;
    list_.reserve(count);
    names_.reserve(count);
    numbers_.reserve(2 * count);
    for (size_t i = 0; i < count; ++i) {
      names_.push_back(has_indices ? name + " " + std::to_string(i) : name);
      RingtuneRequest request{};
      request.dtype = recipe.dtypes[i];
      request.reduction = recipe.reduction;
      request.prescale = recipe.prescale;
      request.postscale = recipe.postscale;
      request.name = names_.back().c_str();
      request.group = "";
      request.input = call.inputs[i].data_ptr();
      request.output = call.outputs[i].data_ptr();
      request.output_bytes = call.outputs[i].nbytes();
      describe(call, i, request);
      list_.push_back(request);
    }
  }

  const std::vector<RingtuneRequest>& list() const { return list_; }

 private:
  void describe(const Call& call, size_t index, RingtuneRequest& request) {
    const at::Tensor& input = call.inputs[index];
    switch (call.kind) {
      case Kind::kBroadcast:
        request.collective = kRingtuneBroadcast;
        request.root_rank = static_cast<uint32_t>(call.root);
        set_shape(request, input.sizes());
        return;
      case Kind::kAllgather:
        request.collective = kRingtuneAllgather;
        set_shape(request, keep({input.numel()}));
        set_rows(request, keep(std::vector<int64_t>(static_cast<size_t>(ranks_), input.numel())));
        return;
      case Kind::kReducescatter:
        request.collective = kRingtuneReducescatter;
        set_shape(request, keep({ranks_, call.outputs[index].numel()}));
        return;
      case Kind::kAlltoall:
        request.collective = kRingtuneAlltoall;
        set_shape(request, keep({input.numel()}));
        set_rows(request, call.taken);
        request.rows_for = call.sent.data();
        return;
      default:
        request.collective = kRingtuneAllreduce;
        set_shape(request, input.sizes());
    }
  }

  at::IntArrayRef keep(std::vector<int64_t> numbers) { return numbers_.emplace_back(std::move(numbers)); }

  static void set_shape(RingtuneRequest& request, at::IntArrayRef shape) {
    request.shape = shape.data();
    request.dimensions = static_cast<uint32_t>(shape.size());
  }

  static void set_rows(RingtuneRequest& request, at::IntArrayRef rows) {
    request.ranks = static_cast<uint32_t>(rows.size());
    request.rows_of = rows.data();
  }

  int ranks_;
  std::vector<RingtuneRequest> list_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> numbers_;
};

}  // namespace ringtune_torch
