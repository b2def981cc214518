// SPDX-License-Identifier: Apache-2.0
// Reductions that have the same meaning in NCCL as here. All others go by host memory.
//
// | reduction                    | by   | NCCL                                 | here                          |
// |------------------------------|------|--------------------------------------|-------------------------------|
// | sum, product of integers     | NCCL | wraps around                         | the same                      |
// | sum, product of floats       | NCCL | rounded to the type, in NCCL's order | likewise, in the ranks' order |
// | min, max of integers         | NCCL | the same                             | the same                      |
// | min, max of floats           | host | NaN is dropped (fminf)               | NaN wins                      |
// | average of floats, 1/n exact | NCCL | sum of x/n, exact for powers of two  | sum, then times 1/n           |
// | average of floats, other n   | host | every x times a rounded 1/n          | sum, then times 1/n           |
// | average of float16           | host | x/n loses bits of subnormal numbers  | sum, then times 1/n           |
// | average of integers          | host | divided in the type                  | in float64, truncated         |
// | prescale, postscale          |      | as for averages: powers of two alone | in float32 or float64         |
// | Adasum                       | host | none                                 | per tensor                    |
// | bool, int16, uint16          | host | no such type                         |                               |
// | broadcast, allgather,        | NCCL | moves bytes, of any type             | the same                      |
// | alltoall                     |      |                                      |                               |
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "device/nccl/nccl_abi.h"

namespace ringtune {

// A reduction as NCCL is told of it.
struct NcclReduction {
  NcclType type = NcclType::kUInt8;
  NcclOp op = NcclOp::kSum;
  double scale = 1;  // factor of every element before it is summed; a power of two

  bool operator==(const NcclReduction&) const = default;
};

// Nothing where NCCL would give something else than postscale * op(prescale * x).
std::optional<NcclReduction> nccl_reduction(DataType dtype, ReduceOp op, double scale, int ranks);

}  // namespace ringtune
