// SPDX-License-Identifier: Apache-2.0
// The stand-ins, loaded by path: RINGTUNE_STANDIN_CUDA and RINGTUNE_STANDIN_NCCL are given by the build.
#pragma once

#include <memory>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "device/nccl/nccl_library.h"
#include "device/standin_nccl.h"

namespace ringtune::testing {

class StandinLibrary {
 public:
  explicit StandinLibrary(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(nullptr, handle_) << dlerror();
  }

  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

// A stream of the stand-in driver.
class StandinStream {
 public:
  StandinStream() { EXPECT_EQ(0, driver_.function<int(void**, unsigned)>("cuStreamCreate")(&stream_, 0)); }
  ~StandinStream() { driver_.function<int(void*)>("cuStreamDestroy_v2")(stream_); }
  StandinStream(const StandinStream&) = delete;
  StandinStream& operator=(const StandinStream&) = delete;

  void* handle() const { return stream_; }
  void synchronize() { EXPECT_EQ(0, driver_.function<int(void*)>("cuStreamSynchronize")(stream_)); }

 private:
  StandinLibrary driver_{RINGTUNE_STANDIN_CUDA};
  void* stream_ = nullptr;
};

class StandinNccl {
 public:
  static std::shared_ptr<const NcclLibrary> load() {
    std::shared_ptr<const NcclLibrary> library;
    const Status status = NcclLibrary::load(RINGTUNE_STANDIN_NCCL, library);
    EXPECT_TRUE(status.ok()) << status.message();
    return library;
  }

  void fail(const char* function, int call, int code) {
    library_.function<decltype(standin_nccl_fail)>("standin_nccl_fail")(function, call, code);
  }
  void delay(int max_us) { library_.function<decltype(standin_nccl_delay)>("standin_nccl_delay")(max_us); }
  int communicators() const {
    return library_.function<decltype(standin_nccl_communicators)>("standin_nccl_communicators")();
  }
  int kernels() const { return library_.function<decltype(standin_nccl_kernels)>("standin_nccl_kernels")(); }

 private:
  StandinLibrary library_{RINGTUNE_STANDIN_NCCL};
};

}  // namespace ringtune::testing
