// SPDX-License-Identifier: Apache-2.0
// NCCL, found and loaded while the job runs.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "device/nccl/nccl_abi.h"

namespace ringtune {

class NcclLibrary {
 public:
  // The copy that the process has already (torch's), else the one at `path` (empty: none), else the system's. The
  // library stays loaded for good. ConfigError if there is none, or one that is too old.
  static Status load(const std::string& path, std::shared_ptr<const NcclLibrary>& library);

  const NcclFunctions& functions() const { return functions_; }
  // 22809 for 2.28.9.
  int version() const { return version_; }
  // "NCCL 2.28.9", for messages.
  std::string name() const;

  // Ok for success and for "still at it"; otherwise a DeviceError with NCCL's own texts. `communicator` may be null.
  Status check(int result, const char* function, NcclHandle communicator) const;

 private:
  NcclFunctions functions_{};
  int version_ = 0;
};

}  // namespace ringtune
