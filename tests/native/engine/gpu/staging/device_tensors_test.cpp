// SPDX-License-Identifier: Apache-2.0
// Order of a GPU's tensors and the engine's work, and refusals, over the stand-in for the driver.
#include <array>
#include <random>

#include <sys/wait.h>
#include <unistd.h>

#include "device/standin_world.h"
#include "telemetry/trace_reader.h"

namespace ringtune {
namespace {

using testing::counter;
using testing::DeviceVector;
using testing::finish;
using testing::finish_on;
using testing::run_world;
using testing::use_standin;
using testing::UserStream;

constexpr size_t kElements = 1000;
constexpr size_t kLargeElements = 80000;  // above the size of the direct algorithm

class DeviceTensorsTest : public testing::StandinTest {
 protected:
  static Handle submit(Engine& engine, const std::string& name, const DeviceVector<float>& values,
                       const UserStream& stream, bool is_gradient = true) {
    Handle handle = kNoHandle;
    const Status status = engine.allreduce_async(values.arguments(name, stream), {ReduceOp::kSum}, is_gradient, handle);
    EXPECT_TRUE(status.ok()) << status.message();
    return handle;
  }

  static std::vector<float> all(float value, size_t elements = kElements) {
    return std::vector<float>(elements, value);
  }
};

TEST_F(DeviceTensorsTest, AnAllreduceIsOrderedOnTheCallersStreamOnBothSides) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(static_cast<float>(engine.rank() + 1));
        for (int step = 0; step < 20; ++step) {
          values.write_on(stream, input, 500);
          const Handle handle = submit(engine, "x", values, stream);
          const Status status = finish_on(engine, handle, stream);
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(all(3), values.read_on(stream));
          ASSERT_TRUE(engine.is_drained(handle));
        }
      },
      use_standin);
}

// The host runs ahead of the streams: no tensor is read before the end.
TEST_F(DeviceTensorsTest, AChainOfAllreducesOfOneTensorNeedsNoHost) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        values.write_on(stream, input, 500);
        for (int step = 0; step < 10; ++step) {
          ASSERT_TRUE(finish_on(engine, submit(engine, "x", values, stream), stream).ok());
        }
        EXPECT_EQ(all(1024), values.read_on(stream));
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, TheResultIsOrderedOnTheStreamThatWaits) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream writer;
        const UserStream reader;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        values.write_on(writer, input, 1000);
        ASSERT_TRUE(finish_on(engine, submit(engine, "x", values, writer), reader).ok());
        EXPECT_EQ(all(2), values.read_on(reader));
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, WithoutAStreamTheCallerWaitsForTheCopy) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        values.write_on(stream, input, 1000);
        const Handle handle = submit(engine, "x", values, stream);
        ASSERT_TRUE(finish(engine, handle).ok());
        EXPECT_TRUE(engine.is_drained(handle));
        EXPECT_EQ(
            0, std::memcmp(all(2).data(), reinterpret_cast<const void*>(values.address()), kElements * sizeof(float)));
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, PollIsTrueOnceTheResultIsInPlace) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        values.write_on(stream, input, 20000);
        const Handle handle = submit(engine, "x", values, stream);
        EXPECT_FALSE(engine.poll(handle));
        while (!engine.poll(handle)) {
          std::this_thread::yield();
        }
        EXPECT_EQ(
            0, std::memcmp(all(2).data(), reinterpret_cast<const void*>(values.address()), kElements * sizeof(float)));
        EXPECT_TRUE(finish_on(engine, handle, stream).ok());
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, GradientsAreReducedWhereTheyAreStaged) {
  run_world(
      3,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> first(kLargeElements);
        DeviceVector<float> second(kLargeElements);
        const std::vector<float> input = all(1, kLargeElements);
        for (int step = 0; step < 4; ++step) {
          first.write_on(stream, input, 100);
          second.write_on(stream, input, 100);
          const Handle one = submit(engine, "first", first, stream);
          const Handle two = submit(engine, "second", second, stream);
          ASSERT_TRUE(finish_on(engine, one, stream).ok());
          ASSERT_TRUE(finish_on(engine, two, stream).ok());
          ASSERT_EQ(all(3, kLargeElements), first.read_on(stream));
          ASSERT_EQ(all(3, kLargeElements), second.read_on(stream));
          engine.mark_step();
        }
        EXPECT_EQ(counter(engine, "responses"), counter(engine, "algorithm.registered"));
        EXPECT_EQ(2U * 2U, counter(engine, "full_requests"));  // no place has changed
      },
      use_standin);
}

// The next tensor of a name is copied to where the last one's result is still copied from.
TEST_F(DeviceTensorsTest, APlaceIsNotUsedAgainBeforeItsResultHasLeft) {
  reset({1, 5, 2000, 1, 1, 1});
  run_world(
      1,
      [](Engine& engine) {
        const UserStream early;
        const UserStream late;
        const std::vector<float> input[] = {all(1), all(2)};
        DeviceVector<float> values[] = {DeviceVector<float>(kElements), DeviceVector<float>(kElements)};
        for (int step = 0; step < 30; ++step) {
          values[0].write_on(early, input[0], 0);
          ASSERT_TRUE(finish_on(engine, submit(engine, "x", values[0], early), late).ok());
          values[1].write_on(early, input[1], 0);
          ASSERT_TRUE(finish_on(engine, submit(engine, "x", values[1], early), early).ok());
          ASSERT_EQ(input[0], values[0].read_on(late));
          ASSERT_EQ(input[1], values[1].read_on(early));
        }
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, WithoutRegistrationGradientsAreStagedElsewhere) {
  for (const uint32_t can_allocate : {1U, 0U}) {
    reset({1, 1, 200, 0, can_allocate, 1});
    run_world(
        2,
        [](Engine& engine) {
          const UserStream stream;
          DeviceVector<float> values(kLargeElements);
          const std::vector<float> input = all(1, kLargeElements);
          for (int step = 0; step < 3; ++step) {
            values.write_on(stream, input, 100);
            ASSERT_TRUE(finish_on(engine, submit(engine, "x", values, stream), stream).ok());
            ASSERT_EQ(all(2, kLargeElements), values.read_on(stream));
          }
          EXPECT_EQ(0U, counter(engine, "algorithm.registered"));
        },
        use_standin);
  }
}

TEST_F(DeviceTensorsTest, ARankMayHaveTensorsOnSeveralGpus) {
  reset({3, 1, 200, 1, 1, 1});
  run_world(
      2,
      [](Engine& engine) {
        const UserStream first_stream(0);
        const UserStream third_stream(2);
        DeviceVector<float> first(kElements);
        DeviceVector<float> third(kElements);
        const std::vector<float> input = all(1);
        for (int step = 0; step < 5; ++step) {
          first.write_on(first_stream, input, 300);
          third.write_on(third_stream, input, 300);
          const Handle one = submit(engine, "first", first, first_stream);
          const Handle three = submit(engine, "third", third, third_stream);
          // A stream of one GPU may wait for the result on another.
          ASSERT_TRUE(finish_on(engine, one, third_stream).ok());
          ASSERT_TRUE(finish_on(engine, three, third_stream).ok());
          ASSERT_EQ(all(2), first.read_on(third_stream));
          ASSERT_EQ(all(2), third.read_on(third_stream));
        }
        EXPECT_EQ(1, standin_has_context(0));
        EXPECT_EQ(0, standin_has_context(1));
        EXPECT_EQ(1, standin_has_context(2));
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, AWorldOfHostTensorsLoadsNoDriver) {
  const uint64_t before = standin_counts().calls;
  run_world(
      2,
      [](Engine& engine) {
        std::vector<float> values(kElements, 1);
        EXPECT_TRUE(testing::allreduce(engine, "x", values).ok());
      },
      use_standin);
  EXPECT_EQ(before, standin_counts().calls);
}

TEST_F(DeviceTensorsTest, AStreamUnderCaptureIsRefused) {
  run_world(
      1,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        standin_set_capturing(stream.raw(), 1);
        Handle handle = kNoHandle;
        const Status status = engine.allreduce_async(values.arguments("x", stream), {ReduceOp::kSum}, true, handle);
        EXPECT_EQ(StatusCode::kConfigError, status.code());
        EXPECT_NE(std::string::npos, status.message().find("'x'")) << status.message();
        EXPECT_NE(std::string::npos, status.message().find("CUDA graph")) << status.message();
        standin_set_capturing(stream.raw(), 0);

        values.write_on(stream, input, 100);
        ASSERT_TRUE(finish_on(engine, submit(engine, "x", values, stream), stream).ok());
        EXPECT_EQ(all(1), values.read_on(stream));
        handle = submit(engine, "x", values, stream);
        standin_set_capturing(stream.raw(), 1);
        const Status synchronized = finish_on(engine, handle, stream);
        EXPECT_NE(std::string::npos, synchronized.message().find("synchronized")) << synchronized.message();
        standin_set_capturing(stream.raw(), 0);
        while (!engine.is_drained(handle)) {
          std::this_thread::yield();
        }
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, AHostTensorAgainstAGpusIsAMismatchThatNamesTheRanks) {
  run_world(
      3,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> on_gpu(kElements);
        std::vector<float> on_host = all(1);
        Status status;
        if (engine.rank() == 1) {
          status = testing::allreduce(engine, "x", on_host);
        } else {
          status = finish_on(engine, submit(engine, "x", on_gpu, stream), stream);
        }
        EXPECT_EQ(StatusCode::kMismatchError, status.code());
        EXPECT_NE(std::string::npos, status.message().find("allreduce(sum) float32 [1000] on cuda on ranks 0, 2"))
            << status.message();
        EXPECT_NE(std::string::npos, status.message().find("allreduce(sum) float32 [1000] on rank 1"))
            << status.message();

        const std::vector<float> input = all(1);
        on_gpu.write_on(stream, input, 0);
        ASSERT_TRUE(finish_on(engine, submit(engine, "y", on_gpu, stream), stream).ok());
        EXPECT_EQ(all(3), on_gpu.read_on(stream));
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, ANameInFlightIsRefusedAndTheFirstIsUnharmed) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        DeviceVector<float> others(kElements);
        const std::vector<float> input = all(1);
        values.write_on(stream, input, 5000);
        const Handle handle = submit(engine, "x", values, stream);
        Handle refused = kNoHandle;
        const Status status = engine.allreduce_async(others.arguments("x", stream), {ReduceOp::kSum}, true, refused);
        EXPECT_EQ(StatusCode::kMismatchError, status.code());

        ASSERT_TRUE(finish_on(engine, handle, stream).ok());
        EXPECT_EQ(all(2), values.read_on(stream));
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, AGpuThatIsNotThereIsNamed) {
  run_world(
      1,
      [](Engine& engine) {
        DeviceVector<float> values(kElements);
        TensorArguments tensor{"x", nullptr, nullptr, {1}, DataType::kFloat32};
        tensor.stream = {7, 0};
        Handle handle = kNoHandle;
        const Status status = engine.allreduce_async(tensor, {ReduceOp::kSum}, true, handle);
        EXPECT_EQ(StatusCode::kDeviceError, status.code());
        EXPECT_NE(std::string::npos, status.message().find("no GPU 7")) << status.message();
      },
      use_standin);
}

TEST_F(DeviceTensorsTest, WithoutADriverTheErrorSaysSo) {
  run_world(
      1,
      [](Engine& engine) {
        TensorArguments tensor{"x", nullptr, nullptr, {1}, DataType::kFloat32};
        tensor.stream = {0, 0};
        Handle handle = kNoHandle;
        const Status status = engine.allreduce_async(tensor, {ReduceOp::kSum}, true, handle);
        EXPECT_EQ(StatusCode::kDeviceError, status.code());
        EXPECT_NE(std::string::npos, status.message().find("no CUDA driver")) << status.message();
      },
      [](EngineOptions& options) { options.gpu.cuda_library = "libcuda_that_is_not_there.so.1"; });
}

TEST_F(DeviceTensorsTest, TheTimelineShowsTheCopiesOfBothDirections) {
  const testing::ScratchFolder folder;
  const std::string path = folder.file("trace.json");
  run_world(
      1,
      [&](Engine& engine) {
        ASSERT_TRUE(engine.timeline().start(path, false).ok());
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        for (int step = 0; step < 3; ++step) {
          values.write_on(stream, input, 500);
          const Handle handle = submit(engine, "x", values, stream);
          while (!engine.poll(handle)) {
            std::this_thread::yield();
          }
          ASSERT_TRUE(finish_on(engine, handle, stream).ok());
          // The next step's work sees that the copy is over.
          std::vector<float> on_host(1, 1);
          ASSERT_TRUE(testing::allreduce(engine, "host", on_host).ok());
        }
      },
      use_standin);
  const std::vector<testing::Json> events = testing::events_of(testing::read_file(path));
  for (const std::string name : {"COPY_TO_HOST", "COPY_TO_GPU"}) {
    const std::vector<testing::Json> copies = testing::events_named(events, name);
    ASSERT_EQ(3U, copies.size()) << name;
    EXPECT_EQ("4000", testing::argument(copies.front(), "bytes"));
    const auto row = static_cast<uint32_t>(std::stoul(copies.front().of("tid")));
    EXPECT_EQ(name == "COPY_TO_HOST" ? "GPU 0 to host" : "host to GPU 0", testing::row_name(events, row));
  }
}

// The stand-in ends a forked child that calls the driver.
TEST_F(DeviceTensorsTest, AForkedChildNeverCallsTheDriver) {
  run_world(
      1,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(kElements);
        const std::vector<float> input = all(1);
        values.write_on(stream, input, 5000);
        const Handle handle = submit(engine, "x", values, stream);
        const pid_t child = fork();
        if (child == 0) {
          engine.abandon_after_fork();
          _exit(0);
        }
        int status = 0;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        ASSERT_TRUE(finish_on(engine, handle, stream).ok());
        EXPECT_EQ(all(1), values.read_on(stream));
      },
      use_standin);
}

}  // namespace
}  // namespace ringtune
