// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_reducescatter.h"

#include "collectives/reducescatter.h"

namespace ringtune {
namespace {

// Number of elements in so many of the tensor's rows.
size_t elements_of(const Signature& signature, int64_t rows) {
  return static_cast<size_t>(rows) * (signature.elements() / static_cast<size_t>(signature.shape.front()));
}

}  // namespace

Status enqueue_reducescatter(const Submission& tensor, const NcclReduction& reduction, const Layout& layout,
                             NcclCommunicator& communicator, NcclStream stream) {
  const Signature& signature = tensor.signature;
  const int ranks = layout.world_size();
  const int64_t rows = signature.shape.front();
  if (rows % ranks == 0) {
    return communicator.reduce_scatter(reduction, {tensor.input, tensor.output, elements_of(signature, rows / ranks)},
                                       stream);
  }
  const std::byte* input = tensor.input;
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t elements = elements_of(signature, rows_of_rank(rows, rank, ranks));
    if (elements > 0) {
      if (Status s = communicator.reduce(reduction, {input, tensor.output, elements}, rank, stream); !s.ok()) {
        return s;
      }
    }
    input += elements * element_bytes(signature.dtype);
  }
  return Status::ok_status();
}

DeviceArray own_rows_of(const Submission& tensor, const Layout& layout) {
  const int64_t own_rows = rows_of_rank(tensor.signature.shape.front(), layout.rank(), layout.world_size());
  return {reinterpret_cast<cuda::DevicePointer>(tensor.output), elements_of(tensor.signature, own_rows)};
}

}  // namespace ringtune
