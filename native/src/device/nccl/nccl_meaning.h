// SPDX-License-Identifier: Apache-2.0
// Reductions that have the same meaning in NCCL as here. All others go by host memory.
//
// | reduction                    | by      | NCCL                                 | here                          |
// |------------------------------|---------|--------------------------------------|-------------------------------|
// | sum, product of integers     | NCCL    | wraps around                         | the same                      |
// | sum, product of floats       | NCCL    | rounded to the type, in NCCL's order | likewise, in the ranks' order |
// | min, max of integers         | NCCL    | the same                             | the same                      |
// | min, max of floats           | host    | NaN is dropped (fminf)               | NaN wins                      |
// | average of floats, 1/n exact | NCCL    | sum of x/n, exact for powers of two  | sum, then divided by n        |
// | average of floats, other n   | kernels | every x times a rounded 1/n          | sum, then divided by n        |
// | average of float16           | kernels | x/n loses bits of subnormal numbers, | sum in float32, then divided  |
// |                              |         | a sum may overflow                   | by n                          |
// | average of integers          | host    | divided in the type                  | in float64, truncated         |
// | prescale, postscale          | kernels | as for averages: powers of two alone | in float32 or float64         |
// | Adasum                       | host    | none                                 | per tensor                    |
// | bool, int16, uint16          | host    | no such type                         |                               |
// | broadcast, allgather,        | NCCL    | moves bytes, of any type             | the same                      |
// | alltoall                     |         |                                      |                               |
//
// "Kernels": NCCL sums, and kernels of the engine scale before and after. Numbers of type float16 are summed as
// float32.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "device/nccl/nccl_abi.h"
#include "device/pack_kernels.h"

namespace ringtune {

// A reduction as NCCL's arguments describe it.
struct NcclReduction {
  NcclType type = NcclType::kUInt8;
  NcclOp op = NcclOp::kSum;
  double scale = 1;  // factor of every element before it is summed; a power of two

  bool operator==(const NcclReduction&) const = default;
};

// The kernels' part of a reduction, beside NCCL's.
struct KernelScaling {
  PackTypes types;      // the tensors' type, and the type that NCCL sums
  double prescale = 1;  // before the sum
  PackScale after_sum;

  bool is_widened() const { return types.tensor != types.buffer; }
  // True if NCCL cannot sum the tensors in their own memory.
  bool needs_buffer() const { return is_widened() || prescale != 1; }
  bool is_scaled_after() const { return after_sum.average_of > 1 || after_sum.factor != 1; }
  bool is_needed() const { return needs_buffer() || is_scaled_after(); }
};

struct GpuReduction {
  NcclReduction nccl;
  KernelScaling kernels;
};

// result = postscale * op over all ranks of (prescale * contribution); Average also divides by the number of ranks.
struct WantedReduction {
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1;
  double postscale = 1;
};

// No value where NCCL, with the kernels, would give other results.
std::optional<GpuReduction> gpu_reduction(const WantedReduction& wanted, int ranks);

}  // namespace ringtune
