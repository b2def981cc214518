// SPDX-License-Identifier: Apache-2.0
// Which reductions mean in NCCL what they mean here. All others go by host memory.
//
// | reduction                            | NCCL                                   | here                          | by
// |
// |--------------------------------------|----------------------------------------|-------------------------------|------|
// | sum, product of integers             | wraps around                           | the same                      |
// NCCL | | sum, product of floats               | rounded to the type, in NCCL's order   | likewise, in the ranks'
// order | NCCL | | min, max of integers                 | the same                               | the same | NCCL | |
// min, max of floats                   | NaN is dropped (fminf)                 | NaN wins                      | host
// | | average of floats, 1/n exact         | sum of x/n, exact for powers of two    | sum, then times 1/n           |
// NCCL | | average of floats, other n           | every x is multiplied by a rounded 1/n | sum, then times 1/n | host |
// | average of float16                   | x/n loses bits of subnormal numbers    | sum, then times 1/n           |
// host | | average of integers                  | divided in the type                    | in float64, truncated | host
// | | prescale, postscale                  | as for averages: powers of two alone   | in float32 or float64         | |
// | Adasum                               | none                                   | per tensor                    |
// host | | bool, int16, uint16                  | no such type                           | | host | | broadcast | moves
// bytes, of any type               | the same                      | NCCL |
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
