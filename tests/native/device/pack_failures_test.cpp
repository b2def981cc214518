// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "device/kernels/pack_list.h"
#include "device/pack_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::kIllegalAddress;
using testing::kInvalidValue;
using testing::UserStream;

constexpr PackTypes kFloatBuffer{DataType::kFloat32, DataType::kFloat32};

class PackFailuresTest : public testing::PackTest {
 protected:
  // The status that a failure of that call of a function gives.
  Status open_with_failure(const char* function, int nth) {
    std::shared_ptr<const Driver> driver;
    EXPECT_TRUE(Driver::load(RINGTUNE_STANDIN_CUDA, driver).ok());
    EXPECT_TRUE(Device::open(driver, 0, device_).ok());
    standin_fail(function, nth, kInvalidValue);
    return PackKernels::open(device_, kernels_);
  }

  void open_device() { EXPECT_FALSE(open_with_failure("cuModuleLoadData", 1).ok()); }
};

TEST_F(PackFailuresTest, KernelsThatTheDriverDoesNotTakeAreADeviceErrorWithItsText) {
  const Status status = open_with_failure("cuModuleLoadData", 1);

  EXPECT_EQ(StatusCode::kDeviceError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("cuModuleLoadData on GPU 0")) << status.message();
  EXPECT_EQ(nullptr, kernels_);
}

TEST_F(PackFailuresTest, AKernelThatIsNotFoundLeavesNoModuleBehind) {
  EXPECT_FALSE(open_with_failure("cuModuleGetFunction", 10).ok());

  EXPECT_EQ(0, standin_counts().modules);
}

TEST_F(PackFailuresTest, OneModuleLivesAsLongAsTheKernels) {
  open();
  EXPECT_EQ(1, standin_counts().modules);

  kernels_.reset();
  EXPECT_EQ(0, standin_counts().modules);
}

TEST_F(PackFailuresTest, AFailedLaunchIsTheCallsStatus) {
  open();
  const UserStream stream;
  DeviceVector<float> memory(1000);
  std::vector<PackedTensor> tensors;
  std::vector<DeviceArray> arrays;
  for (uint64_t i = 0; i < kPackEntries + 1; ++i) {
    tensors.push_back({memory.address() + i * 4, 1, i});
    arrays.push_back({memory.address() + i * 4, 1});
  }
  DeviceVector<float> buffer(1000);
  const Device::Scope scope(*device_);

  for (const int nth : {1, 2}) {
    standin_fail("cuLaunchKernel", nth, kInvalidValue);
    const Status gathered = kernels_->gather(kFloatBuffer, tensors, buffer.address(), 1, stream.raw());
    EXPECT_EQ(StatusCode::kDeviceError, gathered.code());
    EXPECT_NE(std::string::npos, gathered.message().find("cuLaunchKernel on GPU 0")) << gathered.message();
    standin_fail("cuLaunchKernel", nth, kInvalidValue);
    EXPECT_FALSE(kernels_->scatter(kFloatBuffer, tensors, buffer.address(), {}, stream.raw()).ok());
    standin_fail("cuLaunchKernel", nth, kInvalidValue);
    EXPECT_FALSE(kernels_->scale(DataType::kFloat32, arrays, {2, 1}, stream.raw()).ok());
  }
  stream.synchronize();
  EXPECT_FALSE(device_->is_lost());
}

TEST_F(PackFailuresTest, AnErrorOfAKernelLosesTheDevice) {
  open();
  const UserStream stream;
  DeviceVector<float> memory(4);
  const std::vector<DeviceArray> arrays{{memory.address(), 4}};
  const Device::Scope scope(*device_);
  standin_fail("cuLaunchKernel", 1, kIllegalAddress);

  EXPECT_FALSE(kernels_->scale(DataType::kFloat32, arrays, {2, 1}, stream.raw()).ok());
  EXPECT_TRUE(device_->is_lost());
}

// A stand-in that took every input would hide a driver's refusals.

TEST_F(PackFailuresTest, TheStandInRefusesWhatIsNoPtx) {
  open_device();
  const Device::Scope scope(*device_);
  cuda::Module module = nullptr;
  cuda::Kernel kernel = nullptr;

  EXPECT_FALSE(device_->load_module("int main() {}\n.version 7.4\n", module).ok());
  EXPECT_FALSE(device_->load_module("", module).ok());
  ASSERT_TRUE(device_->load_module("// a module without kernels\n\n.version 7.4\n", module).ok());
  EXPECT_FALSE(device_->find_kernel(module, "ringtune_copy_1", kernel).ok());
  device_->unload_module(module);
}

TEST_F(PackFailuresTest, TheStandInRefusesKernelsOfOtherParametersThanTheSource) {
  open_device();
  const Device::Scope scope(*device_);
  const std::string entry = ".version 7.4\n.visible .entry ringtune_copy_1(\n\t.param .align 8 .b8 list[";
  const std::string bytes = std::to_string(sizeof(PackList));
  cuda::Module module = nullptr;
  cuda::Kernel kernel = nullptr;

  ASSERT_TRUE(device_->load_module((entry + bytes + "]\n)\n").c_str(), module).ok());
  EXPECT_TRUE(device_->find_kernel(module, "ringtune_copy_1", kernel).ok());
  device_->unload_module(module);
  ASSERT_TRUE(device_->load_module((entry + "8]\n)\n").c_str(), module).ok());
  EXPECT_FALSE(device_->find_kernel(module, "ringtune_copy_1", kernel).ok());
  device_->unload_module(module);
}

TEST_F(PackFailuresTest, TheStandInRefusesLaunchesThatNoGpuCanDo) {
  open_device();
  const Device::Scope scope(*device_);
  const std::string ptx = ".version 7.4\n.visible .entry ringtune_copy_1(\n\t.param .align 8 .b8 list[" +
                          std::to_string(sizeof(PackList)) + "]\n)\n";
  cuda::Module module = nullptr;
  cuda::Kernel kernel = nullptr;
  ASSERT_TRUE(device_->load_module(ptx.c_str(), module).ok());
  ASSERT_TRUE(device_->find_kernel(module, "ringtune_copy_1", kernel).ok());
  const PackList list{};

  EXPECT_FALSE(device_->launch(kernel, {1, 1025}, &list, nullptr).ok());
  EXPECT_FALSE(device_->launch(kernel, {1, 0}, &list, nullptr).ok());
  EXPECT_FALSE(device_->launch(kernel, {0, 256}, &list, nullptr).ok());
  EXPECT_FALSE(device_->launch(kernel, {1U << 31, 256}, &list, nullptr).ok());
  EXPECT_FALSE(device_->launch(nullptr, {1, 256}, &list, nullptr).ok());
  device_->unload_module(module);
}

TEST_F(PackFailuresTest, TheStandInTellsOfKernelsThatOutliveTheirModuleOrMemory) {
  open();
  const UserStream stream;
  DeviceVector<float> memory(4);
  const std::vector<DeviceArray> known{{memory.address(), 4}};
  const std::vector<DeviceArray> longer{{memory.address(), 5}};
  {
    const Device::Scope scope(*device_);
    ASSERT_TRUE(kernels_->scale(DataType::kFloat32, longer, {2, 1}, stream.raw()).ok());
    stream.synchronize();
    EXPECT_EQ(1, standin_counts().violations);
    standin_work(stream.raw(), nullptr, nullptr, 20000);
    ASSERT_TRUE(kernels_->scale(DataType::kFloat32, known, {2, 1}, stream.raw()).ok());
  }

  kernels_.reset();
  EXPECT_EQ(2, standin_counts().violations);
  stream.synchronize();
  device_.reset();
  reset({});
}

}  // namespace
}  // namespace ringtune
