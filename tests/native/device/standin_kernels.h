// SPDX-License-Identifier: Apache-2.0
// Kernels as the stand-in for the driver runs them: the source that is compiled for GPUs, on the CPU.
#pragma once

#include <cstddef>
#include <string>

#include "device/kernels/pack_list.h"

namespace standin {

// The blocks [first, end) of a launch, thread by thread, on the thread that calls.
using RunBlocks = void (*)(const ringtune::PackList& list, unsigned first, unsigned end, unsigned threads);

struct CompiledKernel {
  const char* name;
  RunBlocks run;
  size_t source_bytes;  // bytes of an element
  size_t target_bytes;
};

// Null if there is no kernel of that name.
const CompiledKernel* find_compiled(const std::string& name);

}  // namespace standin
