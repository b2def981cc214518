// SPDX-License-Identifier: Apache-2.0
#include "device/pack_kernels.h"

#include <cstring>
#include <numeric>

#include <sys/mman.h>

#include "base/half.h"
#include "device/kernels/pack_list.h"
#include "device/pack_world.h"

namespace ringtune {
namespace {

using testing::Bytes;
using testing::DeviceVector;
using testing::lay_out;
using testing::random_bytes;
using testing::UserStream;

constexpr uint64_t kPackedSizes[] = {0, 1, 2, 3, 15, 16, 17, 0, 255, 256, 1000, 8191, 16384, 16385, 40001};
constexpr DataType kOneOfEachSize[] = {DataType::kInt8, DataType::kUInt16, DataType::kInt32, DataType::kComplex64};
constexpr std::byte kUntouched{0x5a};  // the byte that DeviceVector is filled with

size_t sum_of(std::span<const uint64_t> sizes) { return std::accumulate(sizes.begin(), sizes.end(), size_t{0}); }

class PackKernelsTest : public testing::PackTest {
 protected:
  // Copies the tensors' elements between both memories, as the kernels should.
  static void copy(const std::vector<PackedTensor>& tensors, uint64_t first, size_t bytes, const Bytes& from, Bytes& to,
                   bool is_gathered) {
    for (const PackedTensor& packed : tensors) {
      const size_t in_tensors = packed.tensor - first;
      const size_t in_buffer = packed.offset * bytes;
      std::memcpy(to.data() + (is_gathered ? in_buffer : in_tensors),
                  from.data() + (is_gathered ? in_tensors : in_buffer), packed.elements * bytes);
    }
  }
};

TEST_F(PackKernelsTest, TensorsOfAnySizeAndPlaceGoToTheBufferAndNothingElseDoes) {
  open();
  const UserStream stream;
  for (const DataType dtype : kOneOfEachSize) {
    const size_t bytes = element_bytes(dtype);
    DeviceVector<std::byte> memory((sum_of(kPackedSizes) + 100) * bytes);
    DeviceVector<std::byte> buffer((sum_of(kPackedSizes) + 100) * bytes);
    const std::vector<PackedTensor> tensors = lay_out(memory.address(), bytes, kPackedSizes);
    const Bytes values = random_bytes(memory.size(), 1);
    Bytes expected(buffer.size(), kUntouched);
    copy(tensors, memory.address(), bytes, values, expected, true);

    memory.write_on(stream, values, 3000);
    const Device::Scope scope(*device_);
    const Status status = kernels_->gather({dtype, dtype}, tensors, buffer.address(), 1, stream.raw());

    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(expected == buffer.read_on(stream)) << dtype_name(dtype);
  }
}

TEST_F(PackKernelsTest, TensorsOfAnySizeAndPlaceComeFromTheBufferAndNothingElseDoes) {
  open();
  const UserStream stream;
  for (const DataType dtype : kOneOfEachSize) {
    const size_t bytes = element_bytes(dtype);
    DeviceVector<std::byte> memory((sum_of(kPackedSizes) + 100) * bytes);
    DeviceVector<std::byte> buffer((sum_of(kPackedSizes) + 100) * bytes);
    const std::vector<PackedTensor> tensors = lay_out(memory.address(), bytes, kPackedSizes);
    const Bytes values = random_bytes(buffer.size(), 2);
    Bytes expected(memory.size(), kUntouched);
    copy(tensors, memory.address(), bytes, values, expected, false);

    buffer.write_on(stream, values, 3000);
    const Device::Scope scope(*device_);
    const Status status = kernels_->scatter({dtype, dtype}, tensors, buffer.address(), {}, stream.raw());

    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(expected == memory.read_on(stream)) << dtype_name(dtype);
  }
}

TEST_F(PackKernelsTest, Float16TensorsOfAnySizeAndPlaceGoThroughABufferOfFloat32) {
  open();
  const UserStream stream;
  const PackTypes types{DataType::kFloat16, DataType::kFloat32};
  DeviceVector<uint16_t> memory(sum_of(kPackedSizes) + 100);
  DeviceVector<float> buffer(memory.size());
  const std::vector<PackedTensor> tensors = lay_out(memory.address(), sizeof(uint16_t), kPackedSizes);
  std::vector<uint16_t> values(memory.size());
  std::iota(values.begin(), values.end(), 0);
  std::vector<float> expected = buffer.read_on(stream);
  std::vector<uint16_t> expected_back = memory.read_on(stream);
  for (const PackedTensor& packed : tensors) {
    const size_t first = (packed.tensor - memory.address()) / sizeof(uint16_t);
    for (size_t i = 0; i < packed.elements; ++i) {
      expected[packed.offset + i] = to_float(Float16{values[first + i]});
      expected_back[first + i] = to_float16(expected[packed.offset + i]).bits;
    }
  }
  memory.write_on(stream, values, 1000);
  const Device::Scope scope(*device_);

  ASSERT_TRUE(kernels_->gather(types, tensors, buffer.address(), 1, stream.raw()).ok());
  const std::vector<float> packed = buffer.read_on(stream);
  memory.poison();
  ASSERT_TRUE(kernels_->scatter(types, tensors, buffer.address(), {}, stream.raw()).ok());

  EXPECT_EQ(0, std::memcmp(expected.data(), packed.data(), expected.size() * sizeof(float)));
  EXPECT_TRUE(expected_back == memory.read_on(stream));
}

// Both sides may be unaligned, by the same number of bytes or not: each way takes other loads and stores.
TEST_F(PackKernelsTest, EveryAlignmentOfBothSidesMovesEachElementOnce) {
  open();
  const UserStream stream;
  constexpr size_t kElements = 5000;
  constexpr size_t kBytes = sizeof(uint16_t);
  DeviceVector<std::byte> memory((kElements + 16) * kBytes);
  DeviceVector<std::byte> buffer((kElements + 16) * kBytes);
  const Bytes values = random_bytes(memory.size(), 3);
  memory.write_on(stream, values, 0);
  const Device::Scope scope(*device_);
  for (size_t first = 0; first < 9; ++first) {
    for (size_t offset = 0; offset < 9; ++offset) {
      const std::vector<PackedTensor> tensors{{memory.address() + first * kBytes, kElements - first, offset}};
      Bytes expected(buffer.size(), kUntouched);
      copy(tensors, memory.address(), kBytes, values, expected, true);

      standin_fill(stream.raw(), buffer.address(), 0x5a, buffer.size(), 0);
      ASSERT_TRUE(
          kernels_->gather({DataType::kUInt16, DataType::kUInt16}, tensors, buffer.address(), 1, stream.raw()).ok());
      EXPECT_TRUE(expected == buffer.read_on(stream)) << first << " to " << offset;
    }
  }
}

TEST_F(PackKernelsTest, MoreTensorsThanALaunchTakesAreSeveralLaunches) {
  open();
  const UserStream stream;
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < 2 * kPackEntries + 1; ++i) {
    sizes.push_back(1 + i % 7);
  }
  sizes[kPackEntries] = 0;  // takes no place in a launch
  sizes[7] = 100000;        // beside tiny ones
  DeviceVector<std::byte> memory((sum_of(sizes) + 1000) * sizeof(float));
  DeviceVector<std::byte> buffer((sum_of(sizes) + 1000) * sizeof(float));
  const std::vector<PackedTensor> tensors = lay_out(memory.address(), sizeof(float), sizes);
  const Bytes values = random_bytes(memory.size(), 4);
  Bytes expected(buffer.size(), kUntouched);
  copy(tensors, memory.address(), sizeof(float), values, expected, true);
  memory.write_on(stream, values, 1000);
  const Device::Scope scope(*device_);
  const PackTypes types{DataType::kFloat32, DataType::kFloat32};

  const uint64_t calls = standin_counts().calls;
  ASSERT_TRUE(kernels_->gather(types, tensors, buffer.address(), 1, stream.raw()).ok());
  EXPECT_EQ(2, standin_counts().calls - calls);
  EXPECT_TRUE(expected == buffer.read_on(stream));
}

TEST_F(PackKernelsTest, EmptyListsAndEmptyTensorsLaunchNothing) {
  open();
  const Device::Scope scope(*device_);
  const PackTypes types{DataType::kFloat32, DataType::kFloat32};
  const std::vector<PackedTensor> empty(3);

  const uint64_t calls = standin_counts().calls;
  EXPECT_TRUE(kernels_->gather(types, {}, 0, 2, nullptr).ok());
  EXPECT_TRUE(kernels_->scatter(types, empty, 0, {3, 1}, nullptr).ok());
  EXPECT_TRUE(kernels_->scale(DataType::kFloat32, {}, {3, 1}, nullptr).ok());
  EXPECT_EQ(calls, standin_counts().calls);
}

TEST_F(PackKernelsTest, AScaleOfOneLeavesATensorInPlaceAlone) {
  open();
  const Device::Scope scope(*device_);
  const std::vector<DeviceArray> arrays{{16, 1}};

  const uint64_t calls = standin_counts().calls;
  EXPECT_TRUE(kernels_->scale(DataType::kInt64, arrays, {1, 1}, nullptr).ok());
  EXPECT_TRUE(kernels_->scale(DataType::kFloat32, arrays, {0, 1}, nullptr).ok());
  EXPECT_EQ(calls, standin_counts().calls);
}

// 5 GiB of addresses, of which the few pages under the last block become memory.
TEST_F(PackKernelsTest, ElementsBeyondThirtyTwoBitsAreFound) {
  constexpr uint64_t kElements = 5ULL << 30;
  constexpr uint32_t kBlocks = kElements / kPackChunkBytes;
  const auto reserve = [] {
    return mmap(nullptr, kElements, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* const source = reserve();
  void* const target = reserve();
  ASSERT_NE(MAP_FAILED, source);
  ASSERT_NE(MAP_FAILED, target);
  std::memset(static_cast<std::byte*>(source) + kElements - kPackChunkBytes, 1, kPackChunkBytes);
  auto list = std::make_unique<PackList>();
  list->entries[0] = {reinterpret_cast<uint64_t>(source), reinterpret_cast<uint64_t>(target), kElements};
  list->size = 1;

  standin_run_blocks("ringtune_copy_1", list.get(), kBlocks - 1, kBlocks);

  const std::vector<std::byte> expected(kPackChunkBytes, std::byte{1});
  EXPECT_EQ(
      0, std::memcmp(expected.data(), static_cast<std::byte*>(target) + kElements - kPackChunkBytes, kPackChunkBytes));
  munmap(source, kElements);
  munmap(target, kElements);
}

TEST_F(PackKernelsTest, SupportedAreCopiesOfFourSizesAndScalesOfFloats) {
  const auto is_supported = [](DataType tensor, DataType buffer, bool is_scaled) {
    return PackKernels::is_supported({tensor, buffer}, is_scaled);
  };
  for (const DataType dtype : kOneOfEachSize) {
    EXPECT_TRUE(is_supported(dtype, dtype, false));
    EXPECT_FALSE(is_supported(dtype, dtype, true));
  }
  for (const DataType dtype : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64}) {
    EXPECT_TRUE(is_supported(dtype, dtype, false));
    EXPECT_TRUE(is_supported(dtype, dtype, true));
  }
  EXPECT_TRUE(is_supported(DataType::kFloat16, DataType::kFloat32, false));
  EXPECT_TRUE(is_supported(DataType::kFloat16, DataType::kFloat32, true));
  EXPECT_FALSE(is_supported(DataType::kFloat32, DataType::kFloat16, false));
  EXPECT_FALSE(is_supported(DataType::kBFloat16, DataType::kFloat32, false));
  EXPECT_FALSE(is_supported(DataType::kInt32, DataType::kFloat32, false));
  EXPECT_FALSE(is_supported(DataType::kComplex128, DataType::kComplex128, false));
}

TEST_F(PackKernelsTest, WhatIsNotSupportedIsRefusedBeforeTheGpuSeesIt) {
  open();
  const Device::Scope scope(*device_);
  const PackTypes integers{DataType::kInt32, DataType::kInt32};
  const PackTypes floats{DataType::kFloat32, DataType::kFloat32};
  const std::vector<PackedTensor> tensors{{64, 4, 0}};
  const std::vector<PackedTensor> odd_tensors{{65, 4, 0}};
  const std::vector<PackedTensor> endless{{64, uint64_t{1} << 60, 0}};

  const uint64_t calls = standin_counts().calls;
  const Status scaled = kernels_->gather(integers, tensors, 64, 0.5, nullptr);
  EXPECT_EQ(StatusCode::kDeviceError, scaled.code());
  EXPECT_EQ("the GPU kernels cannot gather tensors of int32 with a buffer of int32", scaled.message());
  EXPECT_FALSE(kernels_->scatter(integers, tensors, 64, {2, 1}, nullptr).ok());
  EXPECT_FALSE(kernels_->scale(DataType::kInt32, std::vector<DeviceArray>{{64, 4}}, {1, 3}, nullptr).ok());
  EXPECT_FALSE(kernels_->gather({DataType::kFloat32, DataType::kFloat16}, tensors, 64, 1, nullptr).ok());
  EXPECT_FALSE(kernels_->gather(floats, odd_tensors, 64, 1, nullptr).ok());
  EXPECT_FALSE(kernels_->gather(floats, tensors, 66, 1, nullptr).ok());
  EXPECT_FALSE(kernels_->scatter(floats, odd_tensors, 64, {}, nullptr).ok());
  EXPECT_FALSE(kernels_->gather(floats, endless, 64, 1, nullptr).ok());
  EXPECT_EQ(calls, standin_counts().calls);
}

}  // namespace
}  // namespace ringtune
