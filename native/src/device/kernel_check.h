// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/pack_kernels.h"

namespace ringtune {

// Runs the kernels on some numbers and compares the results with the CPU's: a driver that compiles them wrong costs the
// kernels, not gradients. In a scope of the device; waits for the GPU, some milliseconds.
Status check_pack_kernels(Device& device, PackKernels& kernels);

}  // namespace ringtune
