// SPDX-License-Identifier: Apache-2.0
#include "device/driver.h"

#include <algorithm>
#include <array>

#include <dlfcn.h>

namespace ringtune {
namespace {

// The driver is being unloaded, the context was destroyed, or a kernel or the hardware has failed and lost it.
constexpr std::array<cuda::Result, 15> kStickyResults{
    cuda::kDeinitialized, cuda::kEccUncorrectable, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Status Driver::load(const std::string& library, std::shared_ptr<const Driver>& driver) {
  // Never closed: the driver has threads of its own.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return {StatusCode::kDeviceError, "there is no CUDA driver: " + std::string(reason == nullptr ? library : reason) +
                                          "; install NVIDIA's driver, or keep the tensors on the CPU"};
  }
  auto loaded = std::make_shared<Driver>();
  if (Status s = loaded->find_functions(handle, library); !s.ok()) return s;
  if (Status s = loaded->initialize(); !s.ok()) return s;
  driver = std::move(loaded);
  return Status::ok_status();
}

Status Driver::find_functions(void* library, const std::string& name) {
  std::string missing;
  const auto need = [&](const char* function_name, auto& function) {
    if (!find(library, function_name, function) && missing.empty()) {
      missing = function_name;
    }
  };
  cuda::Functions& f = functions_;
  need("cuInit", f.cuInit);
  need("cuGetErrorName", f.cuGetErrorName);
  need("cuGetErrorString", f.cuGetErrorString);
  need("cuDeviceGetCount", f.cuDeviceGetCount);
  need("cuDeviceGet", f.cuDeviceGet);
  need("cuDeviceGetUuid_v2", f.cuDeviceGetUuid_v2);
  need("cuDeviceGetAttribute", f.cuDeviceGetAttribute);
  need("cuDevicePrimaryCtxRetain", f.cuDevicePrimaryCtxRetain);
  need("cuDevicePrimaryCtxRelease_v2", f.cuDevicePrimaryCtxRelease_v2);
  need("cuCtxPushCurrent_v2", f.cuCtxPushCurrent_v2);
  need("cuCtxPopCurrent_v2", f.cuCtxPopCurrent_v2);
  need("cuThreadExchangeStreamCaptureMode", f.cuThreadExchangeStreamCaptureMode);
  need("cuStreamCreate", f.cuStreamCreate);
  need("cuStreamDestroy_v2", f.cuStreamDestroy_v2);
  need("cuStreamWaitEvent", f.cuStreamWaitEvent);
  need("cuStreamQuery", f.cuStreamQuery);
  need("cuStreamIsCapturing", f.cuStreamIsCapturing);
  need("cuLaunchHostFunc", f.cuLaunchHostFunc);
  need("cuEventCreate", f.cuEventCreate);
  need("cuEventDestroy_v2", f.cuEventDestroy_v2);
  need("cuEventRecord", f.cuEventRecord);
  need("cuEventQuery", f.cuEventQuery);
  need("cuMemHostAlloc", f.cuMemHostAlloc);
  need("cuMemFreeHost", f.cuMemFreeHost);
  need("cuMemHostRegister_v2", f.cuMemHostRegister_v2);
  need("cuMemHostUnregister", f.cuMemHostUnregister);
  need("cuMemcpyDtoHAsync_v2", f.cuMemcpyDtoHAsync_v2);
  need("cuMemcpyHtoDAsync_v2", f.cuMemcpyHtoDAsync_v2);
  need("cuMemcpyDtoDAsync_v2", f.cuMemcpyDtoDAsync_v2);
  need("cuMemPoolCreate", f.cuMemPoolCreate);
  need("cuMemPoolDestroy", f.cuMemPoolDestroy);
  need("cuMemPoolSetAttribute", f.cuMemPoolSetAttribute);
  need("cuMemAllocFromPoolAsync", f.cuMemAllocFromPoolAsync);
  need("cuMemFreeAsync", f.cuMemFreeAsync);
  need("cuModuleLoadData", f.cuModuleLoadData);
  need("cuModuleUnload", f.cuModuleUnload);
  need("cuModuleGetFunction", f.cuModuleGetFunction);
  need("cuLaunchKernel", f.cuLaunchKernel);
  return missing.empty() ? Status::ok_status()
                         : Status(StatusCode::kDeviceError, "the CUDA driver " + name + " has no " + missing +
                                                                "; it is older than CUDA 11.4, install a newer one");
}

Status Driver::initialize() {
  if (Status s = status_of(functions_.cuInit(0), "cuInit", -1); !s.ok()) return s;
  if (Status s = status_of(functions_.cuDeviceGetCount(&device_count_), "cuDeviceGetCount", -1); !s.ok()) return s;
  return device_count_ > 0 ? Status::ok_status()
                           : Status(StatusCode::kDeviceError,
                                    "the CUDA driver sees no GPU; see whether CUDA_VISIBLE_DEVICES hides it");
}

Status Driver::status_of(cuda::Result result, const char* function, int ordinal) const {
  if (result == cuda::kSuccess) {
    return Status::ok_status();
  }
  const char* name = nullptr;
  const char* text = nullptr;
  functions_.cuGetErrorName(result, &name);
  functions_.cuGetErrorString(result, &text);
  const std::string where = ordinal < 0 ? "" : " on GPU " + std::to_string(ordinal);
  return {StatusCode::kDeviceError,
          std::string(function) + where + ": " + (name == nullptr ? "unknown error" : std::string(name)) + " (" +
              std::to_string(result) + ")" + (text == nullptr ? "" : ", " + std::string(text))};
}

bool Driver::is_sticky(cuda::Result result) {
  return std::find(kStickyResults.begin(), kStickyResults.end(), result) != kStickyResults.end();
}

}  // namespace ringtune
