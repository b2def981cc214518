// SPDX-License-Identifier: Apache-2.0
// Whatever call of the driver fails, and whenever: an error or the right result, on every rank, and no memory is left
// behind.
#include <array>
#include <barrier>

#include "device/standin_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::finish_on;
using testing::kIllegalAddress;
using testing::kInvalidValue;
using testing::run_world;
using testing::use_standin;
using testing::UserStream;

constexpr size_t kPlainElements = 500;
constexpr std::array kFunctions{"cuInit",
                                "cuDeviceGetCount",
                                "cuDeviceGet",
                                "cuDevicePrimaryCtxRetain",
                                "cuCtxPushCurrent",
                                "cuCtxPopCurrent",
                                "cuStreamCreate",
                                "cuStreamDestroy",
                                "cuStreamWaitEvent",
                                "cuStreamIsCapturing",
                                "cuStreamQuery",
                                "cuLaunchHostFunc",
                                "cuEventCreate",
                                "cuEventDestroy",
                                "cuEventRecord",
                                "cuEventQuery",
                                "cuMemHostAlloc",
                                "cuMemFreeHost",
                                "cuMemHostRegister",
                                "cuMemHostUnregister",
                                "cuMemcpyDtoHAsync",
                                "cuMemcpyHtoDAsync",
                                "cuDevicePrimaryCtxRelease",
                                "cuThreadExchangeStreamCaptureMode"};

class DeviceFailuresTest : public testing::StandinTest {
 protected:
  // One step of a rank; the first error it sees.
  static Status run_step(Engine& engine, int step, DeviceVector<float>& values, const UserStream& stream) {
    const std::vector<float> input(kPlainElements, 1);
    values.write_on(stream, input, 50);
    Handle handle = kNoHandle;
    const std::string name = step % 2 == 0 ? "gradient" : "other";
    Status status = engine.allreduce_async(values.arguments(name, stream), {ReduceOp::kSum}, step % 2 == 0, handle);
    if (status.ok()) {
      status = finish_on(engine, handle, stream);
    }
    if (!status.ok()) {
      stream.synchronize();  // the tensor's contents are unknown now
      return status;
    }
    const std::vector<float> result = values.read_on(stream);
    if (standin_is_lost() == 0) {
      const std::vector<float> expected(kPlainElements, static_cast<float>(engine.world_size()));
      EXPECT_EQ(expected, result);
    }
    return status;
  }

  // A rank whose submission was refused leaves, and so ends the world for the others.
  static void run(int max_steps, GpuOperations operations, std::array<Status, 2>& ends) {
    run_world(
        2,
        [&](Engine& engine) {
          const UserStream stream;
          DeviceVector<float> values(kPlainElements);
          Status status;
          for (int step = 0; step < max_steps && status.ok(); ++step) {
            status = run_step(engine, step, values, stream);
          }
          engine.shutdown();
          ends[static_cast<size_t>(engine.rank())] = status;
        },
        [operations](EngineOptions& options) {
          use_standin(options);
          options.gpu.operations = operations;
        });
  }

  void expect_error_or_result(const char* function, int nth, int result) {
    for (const GpuOperations operations : {GpuOperations::kHost, GpuOperations::kAuto}) {
      expect_error_or_result(function, nth, result, operations);
    }
  }

  void expect_error_or_result(const char* function, int nth, int result, GpuOperations operations) {
    SCOPED_TRACE(std::string(function) + " call " + std::to_string(nth));
    reset({1, static_cast<uint64_t>(nth), 50, 1, 1, 1});
    standin_fail(function, nth, result);
    std::array<Status, 2> ends;
    run(4, operations, ends);
    const bool is_seen = !ends[0].ok() || !ends[1].ok();
    for (const Status& end : ends) {
      const bool is_expected =
          end.ok() || end.code() == StatusCode::kDeviceError || end.code() == StatusCode::kPeerLostError;
      EXPECT_TRUE(is_expected) << function << " call " << nth << ": " << end.message();
    }
    if (is_seen) {
      const bool is_told = ends[0].code() == StatusCode::kDeviceError || ends[1].code() == StatusCode::kDeviceError;
      EXPECT_TRUE(is_told) << function << " call " << nth << ": " << ends[0].message() << " | " << ends[1].message();
    }
    expect_nothing_alive();
  }
};

TEST_F(DeviceFailuresTest, AnyCallMayFailOnce) {
  for (const char* function : kFunctions) {
    for (const int nth : {1, 2, 3, 5, 9}) {
      expect_error_or_result(function, nth, kInvalidValue);
    }
  }
}

TEST_F(DeviceFailuresTest, AnyCallMayFindTheGpuLost) {
  for (const char* function : kFunctions) {
    for (const int nth : {1, 2, 4, 9}) {
      expect_error_or_result(function, nth, kIllegalAddress);
    }
  }
}

TEST_F(DeviceFailuresTest, ALostGpuEndsTheWorldWithTheDriversText) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kPlainElements);
        ASSERT_TRUE(run_step(engine, 0, values, stream).ok());
        if (engine.rank() == 0) {
          standin_fail("cuMemcpyHtoDAsync", 1, kIllegalAddress);
        }
        Status status;
        for (int step = 0; status.ok(); ++step) {
          status = run_step(engine, step, values, stream);
        }
        EXPECT_EQ(StatusCode::kDeviceError, status.code());
        EXPECT_NE(std::string::npos, status.message().find("(700)")) << status.message();
        // And so it stays.
        EXPECT_EQ(StatusCode::kDeviceError, run_step(engine, 0, values, stream).code());
      },
      use_standin);
}

// A GPU that breaks while no thread calls the driver is noticed all the same.
TEST_F(DeviceFailuresTest, AGpuThatIsLostWhileATensorIsCopiedIsNoticed) {
  std::barrier both_have_submitted(2);
  run_world(
      2,
      [&](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kPlainElements);
        const std::vector<float> input(kPlainElements, 1);
        values.write_on(stream, input, 20000);
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine.allreduce_async(values.arguments("x", stream), {ReduceOp::kSum}, true, handle).ok());
        both_have_submitted.arrive_and_wait();
        if (engine.rank() == 1) {
          standin_fail("cuEventQuery", 1, kIllegalAddress);
        }
        EXPECT_EQ(StatusCode::kDeviceError, finish_on(engine, handle, stream).code());
        stream.synchronize();
      },
      use_standin);
}

TEST_F(DeviceFailuresTest, ShutdownWaitsForCopiesThatAreUnderWay) {
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<DeviceVector<float>>> values;
    std::vector<std::unique_ptr<UserStream>> streams;
    const std::vector<float> input(kPlainElements, 1);
    for (int rank = 0; rank < 2; ++rank) {
      values.push_back(std::make_unique<DeviceVector<float>>(kPlainElements));
      streams.push_back(std::make_unique<UserStream>());
    }
    run_world(
        2,
        [&](Engine& engine) {
          const auto rank = static_cast<size_t>(engine.rank());
          values[rank]->write_on(*streams[rank], input, 3000);
          Handle handle = kNoHandle;
          ASSERT_TRUE(engine
                          .allreduce_async(values[rank]->arguments("x", *streams[rank]), {ReduceOp::kSum},
                                           round % 2 == 0, handle)
                          .ok());
          engine.shutdown();
          EXPECT_FALSE(finish_on(engine, handle, *streams[rank]).ok());
          EXPECT_TRUE(engine.is_drained(handle));
        },
        use_standin);
  }
}

// The streams of others may never end.
TEST_F(DeviceFailuresTest, AKernelThatHangsDoesNotHoldTheShutdownUpForGood) {
  std::atomic<bool> may_end{false};
  UserStream stream;
  DeviceVector<float> values(kPlainElements);
  const int64_t begin_ns = now_ns();
  run_world(
      1,
      [&](Engine& engine) {
        standin_work(
            stream.raw(),
            [](void* flag) {
              while (!static_cast<std::atomic<bool>*>(flag)->load()) {
                std::this_thread::yield();
              }
            },
            &may_end, 0);
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine.allreduce_async(values.arguments("x", stream), {ReduceOp::kSum}, true, handle).ok());
        engine.shutdown();
        EXPECT_GT(standin_counts().registrations, 0);  // left to the GPU, which may write there
      },
      use_standin);
  EXPECT_LT(now_ns() - begin_ns, testing::kDeadlineNs);
  may_end.store(true);
  stream.synchronize();
  standin_forget();
}

}  // namespace
}  // namespace ringtune
