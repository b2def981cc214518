// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include "device/standin_world.h"

namespace ringtune {
namespace {

using testing::kIllegalAddress;

class DeviceTest : public testing::StandinTest {
 protected:
  static std::shared_ptr<const Driver> driver() {
    std::shared_ptr<const Driver> loaded;
    const Status status = Driver::load(RINGTUNE_STANDIN_CUDA, loaded);
    EXPECT_TRUE(status.ok()) << status.message();
    return loaded;
  }

  static std::shared_ptr<Device> open(int ordinal = 0) {
    std::shared_ptr<Device> device;
    const Status status = Device::open(driver(), ordinal, device);
    EXPECT_TRUE(status.ok()) << status.message();
    return device;
  }
};

TEST_F(DeviceTest, ALibraryThatIsNoDriverIsNamedWithWhatItLacks) {
  std::shared_ptr<const Driver> loaded;

  const Status status = Driver::load("libm.so.6", loaded);

  EXPECT_EQ(StatusCode::kDeviceError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("libm.so.6 has no cuInit")) << status.message();
}

TEST_F(DeviceTest, WithoutAVisibleGpuTheErrorNamesTheVariableThatHidesThem) {
  reset({1, 1, 0, 1, 1, 1});
  standin_set_devices(0);
  std::shared_ptr<const Driver> loaded;

  const Status status = Driver::load(RINGTUNE_STANDIN_CUDA, loaded);

  EXPECT_EQ(StatusCode::kDeviceError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("CUDA_VISIBLE_DEVICES")) << status.message();
}

TEST_F(DeviceTest, LoadingTheDriverMakesNoContext) {
  driver();

  EXPECT_EQ(0, standin_has_context(0));
}

TEST_F(DeviceTest, AnErrorNamesTheFunctionTheGpuAndTheNumber) {
  const std::shared_ptr<Device> device = open();
  const Device::Scope scope(*device);
  std::shared_ptr<DeviceEvent> event;
  standin_fail("cuEventCreate", 1, 2);

  const Status status = device->make_event(event);

  EXPECT_EQ(StatusCode::kDeviceError, status.code());
  EXPECT_EQ(0U, status.message().find("cuEventCreate on GPU 0: CUDA_ERROR_OUT_OF_MEMORY (2), ")) << status.message();
  EXPECT_FALSE(device->is_lost());
}

TEST_F(DeviceTest, AnExceptionOfAKernelLosesTheGpu) {
  const std::shared_ptr<Device> device = open();
  const Device::Scope scope(*device);
  std::shared_ptr<DeviceEvent> event;
  standin_fail("cuEventCreate", 1, kIllegalAddress);

  EXPECT_FALSE(device->make_event(event).ok());
  EXPECT_TRUE(device->is_lost());
}

TEST_F(DeviceTest, EventsAreUsedAgain) {
  const std::shared_ptr<Device> device = open();
  const Device::Scope scope(*device);
  for (int i = 0; i < 10; ++i) {
    std::shared_ptr<DeviceEvent> event;
    ASSERT_TRUE(device->make_event(event).ok());
  }

  EXPECT_EQ(1, standin_counts().events);
}

TEST_F(DeviceTest, AnEventIsCompleteOnceTheWorkBeforeItIs) {
  const std::shared_ptr<Device> device = open();
  const testing::UserStream stream;
  const Device::Scope scope(*device);
  std::shared_ptr<DeviceEvent> event;
  ASSERT_TRUE(device->make_event(event).ok());
  standin_work(stream.raw(), nullptr, nullptr, 20000);
  ASSERT_TRUE(device->record(*event, stream.raw()).ok());
  bool is_complete = true;

  ASSERT_TRUE(device->is_complete(*event, is_complete).ok());
  EXPECT_FALSE(is_complete);

  stream.synchronize();
  ASSERT_TRUE(device->is_complete(*event, is_complete).ok());
  EXPECT_TRUE(is_complete);
}

}  // namespace
}  // namespace ringtune
