// SPDX-License-Identifier: Apache-2.0
// The CUDA driver of this machine, found at run time.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "device/driver_abi.h"

namespace ringtune {

inline constexpr const char* kCudaLibrary = "libcuda.so.1";

class Driver {
 public:
  // Loads the library and initializes the driver; a device has no context yet. `kDeviceError` says why there is none.
  // A process that has done this must not use the driver in forked children.
  static Status load(const std::string& library, std::shared_ptr<const Driver>& driver);

  const cuda::Functions& functions() const { return functions_; }
  int device_count() const { return device_count_; }

  // "cuEventRecord on GPU 0: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered"
  Status status_of(cuda::Result result, const char* function, int ordinal) const;
  // True if every later call in the device's context will fail, too.
  static bool is_sticky(cuda::Result result);

 private:
  Status find_functions(void* library, const std::string& name);
  Status initialize();

  cuda::Functions functions_{};
  int device_count_ = 0;
};

}  // namespace ringtune
