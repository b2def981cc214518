// SPDX-License-Identifier: Apache-2.0
// Kernels that pack tensors of a GPU into one buffer and back, and scale them on the way: the same bits as the
// reductions of collectives/ on CPUs, but for which NaN a NaN is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"

namespace ringtune {

// A tensor, and where in the buffer its elements are. Addresses are multiples of the element's size; multiples of 16
// bytes, or as far from one on both sides, are the fastest.
struct PackedTensor {
  cuda::DevicePointer tensor = 0;
  uint64_t elements = 0;
  uint64_t offset = 0;  // in elements of the buffer
};

struct DeviceArray {
  cuda::DevicePointer address = 0;
  uint64_t elements = 0;
};

// Equal, or tensors of float16 in a buffer of float32, where their sum is rounded once and does not overflow.
struct PackTypes {
  DataType tensor = DataType::kFloat32;
  DataType buffer = DataType::kFloat32;
};

// A sum's average and factor, in this order and each rounded: in float32 for 16-bit floats and float32, else in
// float64.
struct PackScale {
  int average_of = 1;  // ranks by whose number it is divided; 0 and 1: no division
  double factor = 1;
};

class PackKernels {
 public:
  // Loads the kernels, which the driver compiles for the GPU or has compiled before; the status says why it cannot.
  // May wait for the GPU.
  static Status open(std::shared_ptr<Device> device, std::shared_ptr<PackKernels>& kernels);
  // Once the streams are through with their kernels, and no graph that captured some is left.
  ~PackKernels();
  PackKernels(const PackKernels&) = delete;
  PackKernels& operator=(const PackKernels&) = delete;

  // Elements of 1, 2, 4 and 8 bytes are copied; floats of 16 to 64 bits are scaled as well, or averaged.
  static bool is_supported(PackTypes types, bool is_scaled);

  // In a scope of the device, the stream's next work, in one launch per 128 tensors. The lists are read before the
  // calls return. Types and scales that are not supported are refused, and so are addresses that are no multiples of
  // the element's size: on a GPU they would end the context.
  //
  // buffer[offset + i] = prescale * tensor[i]
  Status gather(PackTypes types, std::span<const PackedTensor> tensors, cuda::DevicePointer buffer, double prescale,
                cuda::Stream stream);
  // tensor[i] = factor * (buffer[offset + i] / average_of)
  Status scatter(PackTypes types, std::span<const PackedTensor> tensors, cuda::DevicePointer buffer, PackScale scale,
                 cuda::Stream stream);
  // In place: array[i] = factor * (array[i] / average_of)
  Status scale(DataType dtype, std::span<const DeviceArray> arrays, PackScale scale, cuda::Stream stream);

 private:
  static constexpr size_t kKernels = 10;

  explicit PackKernels(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  const std::shared_ptr<Device> device_;
  cuda::Module module_ = nullptr;
  std::array<cuda::Kernel, kKernels> kernels_{};
};

}  // namespace ringtune
