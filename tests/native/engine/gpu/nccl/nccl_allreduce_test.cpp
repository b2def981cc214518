// SPDX-License-Identifier: Apache-2.0
// One rank; NCCL's sum is a function of the test's.
#include "engine/gpu/nccl/nccl_allreduce.h"

#include <gtest/gtest.h>

#include "device/pack_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::UserStream;

class NcclAllreduceTest : public testing::PackTest {
 protected:
  using Values = std::vector<std::vector<float>>;

  // Reduces tensors of these values, from one memory to another, in a buffer of 256 bytes; each sum doubles.
  Values run(const Values& values, const PackingWish& wish) {
    open();
    const UserStream stream;
    std::vector<std::unique_ptr<DeviceVector<float>>> memory;
    std::vector<Submission> tensors;
    for (const std::vector<float>& input : values) {
      Submission& tensor = tensors.emplace_back();
      tensor.signature.dtype = DataType::kFloat32;
      tensor.signature.shape = {static_cast<int64_t>(input.size())};
      for (const std::byte** place : {&tensor.input, const_cast<const std::byte**>(&tensor.output)}) {
        memory.push_back(std::make_unique<DeviceVector<float>>(input.size()));
        *place = reinterpret_cast<const std::byte*>(memory.back()->address());
      }
      memory[memory.size() - 2]->write_on(stream, input, 100);
    }
    reduce(tensors, wish, stream);
    Values results;
    for (size_t i = 1; i < memory.size(); i += 2) {
      results.push_back(memory[i]->read_on(stream));
    }
    return results;
  }

  std::vector<size_t> sums_;  // number of buffers that each sum got
  uint64_t packed_ = 0;

 private:
  void reduce(std::span<const Submission> tensors, const PackingWish& wish, const UserStream& stream) {
    const Device::Scope scope(*device_);
    std::shared_ptr<DeviceMemoryPool> pool;
    ASSERT_TRUE(DeviceMemoryPool::open(device_, pool).ok());
    NcclAllreduce allreduce(pool, kernels_, stream.raw(), 256);
    const auto sum = [&](std::span<const NcclBuffers> buffers) {
      sums_.push_back(buffers.size());
      Status status;
      for (const NcclBuffers& each : buffers) {
        const auto output = reinterpret_cast<cuda::DevicePointer>(each.output);
        if (each.input != each.output) {
          status = device_->copy_within(output, reinterpret_cast<cuda::DevicePointer>(each.input),
                                        each.elements * sizeof(float), stream.raw());
        }
        const DeviceArray array{output, each.elements};
        status = status.ok() ? kernels_->scale(DataType::kFloat32, {&array, 1}, {1, 2}, stream.raw()) : status;
      }
      return status;
    };
    const KernelScaling halved{{DataType::kFloat32, DataType::kFloat32}, 1, {2, 10}};
    ASSERT_TRUE(allreduce.run(tensors, halved, wish, sum).ok());
    packed_ = allreduce.packed_tensors();
    std::shared_ptr<DeviceEvent> end;
    ASSERT_TRUE(device_->make_event(end).ok());
    ASSERT_TRUE(device_->record(*end, stream.raw()).ok());
    allreduce.set_end(end);
    stream.synchronize();
  }
};

std::vector<float> counted(size_t size, float factor) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = factor * static_cast<float>(i + 1);
  }
  return values;
}

TEST_F(NcclAllreduceTest, WhatDoesNotFitTheBufferTakesRoundsOfWhichTheFirstTakesAlongTheOthers) {
  const auto results = run({counted(10, 1), counted(500, 1), counted(20, 1), counted(30, 1), counted(40, 1)}, {160});

  const Values expected{counted(10, 10), counted(500, 10), counted(20, 10), counted(30, 10), counted(40, 10)};
  EXPECT_EQ(expected, results);
  EXPECT_EQ((std::vector<size_t>{2, 1}), sums_);
  EXPECT_EQ(4U, packed_);
}

TEST_F(NcclAllreduceTest, ATensorLargerThanTheBufferGoesInParts) {
  const auto results = run({counted(333, 1)}, {0, true});

  EXPECT_EQ((Values{counted(333, 10)}), results);
  EXPECT_EQ(std::vector<size_t>(6, 1), sums_);
}

}  // namespace
}  // namespace ringtune
