// SPDX-License-Identifier: Apache-2.0
// Kernels of a GPU of the stand-in driver, and lists of tensors for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "device/pack_kernels.h"
#include "device/standin_world.h"

namespace ringtune::testing {

using Bytes = std::vector<std::byte>;

class PackTest : public StandinTest {
 protected:
  // The device and its kernels stay until the test ends.
  void open() {
    std::shared_ptr<const Driver> driver;
    ASSERT_TRUE(Driver::load(RINGTUNE_STANDIN_CUDA, driver).ok());
    ASSERT_TRUE(Device::open(driver, 0, device_).ok());
    ASSERT_TRUE(PackKernels::open(device_, kernels_).ok());
  }
  void TearDown() override {
    kernels_.reset();
    device_.reset();
    StandinTest::TearDown();
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<PackKernels> kernels_;
};

inline Bytes random_bytes(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes made(bytes);
  for (std::byte& byte : made) {
    byte = static_cast<std::byte>(random());
  }
  return made;
}

// Tensors one after the other from an address on. Small gaps, other ones on both sides, let them begin at any multiple
// of the element's size.
inline std::vector<PackedTensor> lay_out(uint64_t address, size_t tensor_bytes, std::span<const uint64_t> sizes) {
  std::vector<PackedTensor> tensors;
  uint64_t first = 0;
  uint64_t offset = 0;
  for (const uint64_t elements : sizes) {
    first += tensors.size() % 5;
    offset += tensors.size() % 3;
    tensors.push_back({address + first * tensor_bytes, elements, offset});
    first += elements;
    offset += elements;
  }
  return tensors;
}

}  // namespace ringtune::testing
