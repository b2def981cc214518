// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's API that ringtune calls, declared here: neither building nor running ringtune needs
// the CUDA toolkit. The names and numbers are those of NVIDIA's cuda.h, where they never change once published.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringtune::cuda {

// Opaque to everybody but the driver. Frameworks hand out a stream and a device pointer as integers.
using Result = int;
using Ordinal = int;  // CUdevice
using Context = void*;
using Stream = void*;
using Event = void*;
using DevicePointer = uint64_t;
using HostFunction = void (*)(void* argument);
using MemoryPool = void*;
using Module = void*;
using Kernel = void*;  // CUfunction

// CUmemPoolProps: memory of one device, for this process alone.
struct MemoryPoolProperties {
  int allocation_type = 1;  // pinned, as all device memory
  int handle_types = 0;     // none: no other process uses it
  int location_type = 1;    // a device
  int location_id = 0;      // its number
  void* windows_security = nullptr;
  unsigned char reserved[64] = {};  // members of newer drivers, for which 0 is the default
};
static_assert(sizeof(MemoryPoolProperties) == 88);

inline constexpr Result kSuccess = 0;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kEccUncorrectable = 214;
inline constexpr Result kNotReady = 600;
inline constexpr Result kStreamCaptureImplicit = 906;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1;  // pinned for every context
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kHasMemoryPools = 115;  // a device's attribute
inline constexpr int kReleaseThreshold = 4;  // a pool's attribute, of 64 bits: bytes that it keeps

// Each function under the name that the driver exports. `_v2` is the version for 64-bit sizes, or the one that this
// declaration fits; a stream of 0 is the legacy default stream.
struct Functions {
  Result (*cuInit)(unsigned flags);
  Result (*cuGetErrorName)(Result result, const char** name);
  Result (*cuGetErrorString)(Result result, const char** text);
  Result (*cuDeviceGetCount)(int* count);
  Result (*cuDeviceGet)(Ordinal* device, int ordinal);
  Result (*cuDeviceGetUuid_v2)(uint8_t* uuid, Ordinal device);  // 16 bytes; of a part of a GPU, its own
  Result (*cuDeviceGetAttribute)(int* value, int attribute, Ordinal device);
  Result (*cuDevicePrimaryCtxRetain)(Context* context, Ordinal device);
  Result (*cuDevicePrimaryCtxRelease_v2)(Ordinal device);
  Result (*cuCtxPushCurrent_v2)(Context context);
  Result (*cuCtxPopCurrent_v2)(Context* context);
  Result (*cuThreadExchangeStreamCaptureMode)(int* mode);
  Result (*cuStreamCreate)(Stream* stream, unsigned flags);
  Result (*cuStreamDestroy_v2)(Stream stream);
  Result (*cuStreamWaitEvent)(Stream stream, Event event, unsigned flags);
  Result (*cuStreamQuery)(Stream stream);
  Result (*cuStreamIsCapturing)(Stream stream, int* status);
  Result (*cuLaunchHostFunc)(Stream stream, HostFunction function, void* argument);
  Result (*cuEventCreate)(Event* event, unsigned flags);
  Result (*cuEventDestroy_v2)(Event event);
  Result (*cuEventRecord)(Event event, Stream stream);
  Result (*cuEventQuery)(Event event);
  Result (*cuMemHostAlloc)(void** memory, size_t bytes, unsigned flags);
  Result (*cuMemFreeHost)(void* memory);
  Result (*cuMemHostRegister_v2)(void* memory, size_t bytes, unsigned flags);
  Result (*cuMemHostUnregister)(void* memory);
  Result (*cuMemcpyDtoHAsync_v2)(void* to, DevicePointer from, size_t bytes, Stream stream);
  Result (*cuMemcpyHtoDAsync_v2)(DevicePointer to, const void* from, size_t bytes, Stream stream);
  Result (*cuMemcpyDtoDAsync_v2)(DevicePointer to, DevicePointer from, size_t bytes, Stream stream);
  Result (*cuMemPoolCreate)(MemoryPool* pool, const MemoryPoolProperties* properties);
  Result (*cuMemPoolDestroy)(MemoryPool pool);
  Result (*cuMemPoolSetAttribute)(MemoryPool pool, int attribute, void* value);
  Result (*cuMemAllocFromPoolAsync)(DevicePointer* memory, size_t bytes, MemoryPool pool, Stream stream);
  Result (*cuMemFreeAsync)(DevicePointer memory, Stream stream);
  Result (*cuModuleLoadData)(Module* module, const void* image);
  Result (*cuModuleUnload)(Module module);
  Result (*cuModuleGetFunction)(Kernel* kernel, Module module, const char* name);
  Result (*cuLaunchKernel)(Kernel kernel, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                           unsigned threads_y, unsigned threads_z, unsigned shared_bytes, Stream stream,
                           void** parameters, void** extra);
};

}  // namespace ringtune::cuda
