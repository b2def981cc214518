// SPDX-License-Identifier: Apache-2.0
#include "standin_kernels.h"

#include <algorithm>
#include <cstring>
#include <iterator>

// Names that CUDA C has and C++ has not.
struct StandinIndex {
  unsigned x = 0;
};
inline thread_local StandinIndex blockIdx;
inline thread_local StandinIndex threadIdx;
#define __global__
#define __launch_bounds__(threads)

#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "device/kernels/pack_scale.cu"

namespace standin {
namespace {

template <auto kKernel>
void run(const ringtune::PackList& list, unsigned first, unsigned end, unsigned threads) {
  for (blockIdx.x = first; blockIdx.x < end; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
      kKernel(list);
    }
  }
}

constexpr CompiledKernel kKernels[] = {
    {"ringtune_copy_1", &run<&ringtune_copy_1>, 1, 1},
    {"ringtune_copy_2", &run<&ringtune_copy_2>, 2, 2},
    {"ringtune_copy_4", &run<&ringtune_copy_4>, 4, 4},
    {"ringtune_copy_8", &run<&ringtune_copy_8>, 8, 8},
    {"ringtune_scale_float16", &run<&ringtune_scale_float16>, 2, 2},
    {"ringtune_scale_bfloat16", &run<&ringtune_scale_bfloat16>, 2, 2},
    {"ringtune_scale_float32", &run<&ringtune_scale_float32>, 4, 4},
    {"ringtune_scale_float64", &run<&ringtune_scale_float64>, 8, 8},
    {"ringtune_widen_float16", &run<&ringtune_widen_float16>, 2, 4},
    {"ringtune_narrow_float16", &run<&ringtune_narrow_float16>, 4, 2},
};

}  // namespace

const CompiledKernel* find_compiled(const std::string& name) {
  const auto* found = std::find_if(std::begin(kKernels), std::end(kKernels),
                                   [&](const CompiledKernel& kernel) { return name == kernel.name; });
  return found == std::end(kKernels) ? nullptr : found;
}

}  // namespace standin
