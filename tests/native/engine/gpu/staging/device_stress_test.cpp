// SPDX-License-Identifier: Apache-2.0
// Many operations on tensors of GPUs while everything is delayed at random, and while calls of the driver fail.
#include <array>
#include <cstdlib>
#include <random>

#include "device/standin_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::finish_on;
using testing::kIllegalAddress;
using testing::kInvalidValue;
using testing::run_hosts;
using testing::use_standin;
using testing::UserStream;

constexpr size_t kBatch = 20;
constexpr size_t kMaxElements = 3000;
constexpr std::array kFailingFunctions{"cuStreamWaitEvent", "cuStreamIsCapturing", "cuLaunchHostFunc",
                                       "cuEventCreate",     "cuEventRecord",       "cuEventQuery",
                                       "cuMemHostAlloc",    "cuMemHostRegister",   "cuMemcpyDtoHAsync",
                                       "cuMemcpyHtoDAsync", "cuCtxPushCurrent"};

// The count of the full run, which `make test-long` asks for; the usual one keeps the suite quick.
int operations() {
  const char* rounds = std::getenv("RINGTUNE_TEST_DEVICE_ROUNDS");
  return rounds == nullptr ? 1000 : std::atoi(rounds);
}

// A rank's tensors on two GPUs, and streams that take turns with them.
class RankWork {
 public:
  RankWork(Engine& engine, uint64_t seed) : engine_(engine), random_(seed) {
    for (size_t i = 0; i < kBatch; ++i) {
      tensors_.push_back(std::make_unique<DeviceVector<float>>(kMaxElements));
    }
  }

  // The first error, or ok with all results as they must be.
  Status run_batch(int batch) {
    std::vector<Handle> handles(kBatch, kNoHandle);
    std::vector<size_t> sizes(kBatch);
    inputs_.assign(kBatch, {});
    Status first;
    for (size_t i = 0; i < kBatch; ++i) {
      sizes[i] = 1 + random_() % (random_() % 4 == 0 ? kMaxElements : 100);
      const bool is_gradient = random_() % 2 == 0;
      const uint32_t delay_us = random_() % 3 == 0 ? random_() % 200 : 0;
      inputs_[i].assign(kMaxElements, static_cast<float>(engine_.rank() + batch % 7));
      const UserStream& stream = streams_[i % streams_.size()];
      tensors_[i]->write_on(stream, inputs_[i], delay_us);
      TensorArguments tensor = tensors_[i]->arguments("t" + std::to_string(is_gradient ? i : i + kBatch), stream);
      tensor.shape = {static_cast<int64_t>(sizes[i])};
      if (first.ok()) {
        first = engine_.allreduce_async(tensor, {ReduceOp::kSum}, is_gradient, handles[i]);
      }
    }
    for (size_t i = 0; i < kBatch; ++i) {
      if (handles[i] != kNoHandle) {
        const Status status = finish_on(engine_, handles[i], streams_[i % streams_.size()]);
        first = first.ok() ? status : first;
      }
    }
    for (size_t i = 0; i < kBatch; ++i) {
      read(i, sizes[i], batch, first.ok());
    }
    engine_.mark_step();
    return first;
  }

 private:
  void read(size_t i, size_t size, int batch, bool is_known) const {
    const UserStream& stream = streams_[i % streams_.size()];
    if (!is_known) {
      stream.synchronize();  // the tensor's contents are unknown now
    } else if (const std::vector<float> result = tensors_[i]->read_on(stream); standin_is_lost() == 0) {
      check(result, size, batch);
    }
  }
  void check(const std::vector<float>& result, size_t size, int batch) const {
    const int ranks = engine_.world_size();
    const auto expected = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (batch % 7));
    for (size_t i = 0; i < result.size(); ++i) {
      ASSERT_EQ(i < size ? expected : static_cast<float>(engine_.rank() + batch % 7), result[i])
          << "element " << i << " of " << size << " in batch " << batch;
    }
  }

  Engine& engine_;
  std::mt19937 random_;  // equal on all ranks
  std::vector<std::unique_ptr<DeviceVector<float>>> tensors_;
  std::vector<std::vector<float>> inputs_;  // until the streams are through
  const std::array<UserStream, 3> streams_{UserStream(0), UserStream(0), UserStream(1)};
};

class DeviceStressTest : public testing::StandinTest, public ::testing::WithParamInterface<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Hosts, DeviceStressTest, ::testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 0, 1}));

TEST_P(DeviceStressTest, NoWrongElementWhateverIsDelayed) {
  reset({2, 7, 100, 1, 1, 1});
  const int batches = operations() / static_cast<int>(kBatch);
  run_hosts(
      GetParam(),
      [batches](Engine& engine) {
        RankWork work(engine, 3);
        for (int batch = 0; batch < batches && !HasFailure(); ++batch) {
          const Status status = work.run_batch(batch);
          ASSERT_TRUE(status.ok()) << status.message();
        }
      },
      use_standin);
  RecordProperty("device_operations", operations());
}

// Worlds of a few batches each, with one failure at a random call.
TEST_P(DeviceStressTest, AnErrorOrTheRightResultWhateverFails) {
  constexpr int kBatches = 3;
  std::mt19937 random(11);
  const int worlds = std::max(5, operations() / (kBatches * static_cast<int>(kBatch)));
  int failed = 0;
  for (int world = 0; world < worlds && !HasFailure(); ++world) {
    reset({2, static_cast<uint64_t>(world), 50, 1, 1, 1});
    const char* function = kFailingFunctions[random() % kFailingFunctions.size()];
    const int nth = 1 + static_cast<int>(random() % 150);
    standin_fail(function, nth, random() % 2 == 0 ? kInvalidValue : kIllegalAddress);
    std::atomic<bool> has_failed{false};
    run_hosts(
        GetParam(),
        [&](Engine& engine) {
          RankWork work(engine, static_cast<uint64_t>(world));
          Status status;
          for (int batch = 0; batch < kBatches && status.ok(); ++batch) {
            status = work.run_batch(batch);
          }
          if (!status.ok()) {
            has_failed.store(true);
            EXPECT_TRUE(status.code() == StatusCode::kDeviceError || status.code() == StatusCode::kPeerLostError)
                << function << ' ' << nth << ": " << status.message();
          }
          engine.shutdown();
        },
        use_standin);
    failed += has_failed.load() ? 1 : 0;
    expect_nothing_alive();
  }
  EXPECT_GT(failed, 0);
  RecordProperty("device_operations_with_failures", worlds * kBatches * static_cast<int>(kBatch));
}

}  // namespace
}  // namespace ringtune
