// SPDX-License-Identifier: Apache-2.0
// Ranks are threads, the libraries are the stand-ins.
#include "device/nccl/nccl_communicator.h"

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "device/nccl/standin_nccl.h"
#include "device/standin_cuda.h"

namespace ringtune {
namespace {

class Stream {
 public:
  ~Stream() { standin_destroy_stream(handle_); }
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const { return handle_; }
  void synchronize() const { standin_synchronize(handle_); }

 private:
  void* const handle_ = standin_make_stream(0);
};

std::shared_ptr<const NcclLibrary> load_library() {
  std::shared_ptr<const NcclLibrary> library;
  const Status status = NcclLibrary::load("", library);
  EXPECT_TRUE(status.ok()) << status.message();
  return library;
}

constexpr int64_t kMeetingDeadlineNs = 60 * kNsPerS;

// Ends a wait when the test's own time is over.
NcclCommunicator::Watch patience() {
  return [limit_ns = now_ns() + kMeetingDeadlineNs] {
    return now_ns() < limit_ns ? Status::ok_status() : Status(StatusCode::kCollectiveTimeout, "the test's deadline");
  };
}

struct Rank {
  int rank;
  int world_size;
  NcclCommunicator& communicator;
  Stream& stream;
};

void run_ranks(int world_size, const std::function<void(Rank)>& body) {
  const std::shared_ptr<const NcclLibrary> library = load_library();
  NcclUniqueId id;
  ASSERT_TRUE(NcclCommunicator::make_id(*library, id).ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      Stream stream;
      NcclCommunicator communicator(library);  // goes first: a stream waits for its kernels
      ASSERT_TRUE(communicator.begin(id, rank, world_size).ok());
      ASSERT_TRUE(communicator.settle(patience()).ok());
      body({rank, world_size, communicator, stream});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, standin_nccl_communicators());
  EXPECT_EQ(0, standin_nccl_kernels());
}

template <typename T>
NcclBuffers in_place(std::vector<T>& values) {
  auto* data = reinterpret_cast<std::byte*>(values.data());
  return {data, data, values.size()};
}

template <typename T>
NcclBuffers bytes_of(std::vector<T>& values) {
  auto* data = reinterpret_cast<std::byte*>(values.data());
  return {data, data, values.size() * sizeof(T)};
}

constexpr NcclReduction kSum{NcclType::kFloat32, NcclOp::kSum, 1};

TEST(NcclCommunicator, AGroupOfSumsIsThereOnceTheStreamIsThrough) {
  standin_nccl_delay(500);
  run_ranks(3, [](Rank rank) {
    std::vector<std::vector<float>> tensors;
    for (const size_t size : {1UL, 1000UL, 200'000UL}) {
      tensors.emplace_back(size, static_cast<float>(rank.rank + 1));
    }

    ASSERT_TRUE(rank.communicator.group_start().ok());
    for (std::vector<float>& tensor : tensors) {
      ASSERT_TRUE(rank.communicator.allreduce(kSum, in_place(tensor), rank.stream.handle()).ok());
    }
    ASSERT_TRUE(rank.communicator.group_end().ok());
    ASSERT_TRUE(rank.communicator.settle(patience()).ok());
    rank.stream.synchronize();

    for (const std::vector<float>& tensor : tensors) {
      EXPECT_EQ(std::vector<float>(tensor.size(), 6), tensor);
    }
    EXPECT_TRUE(rank.communicator.close(patience()).ok());
  });
  standin_nccl_delay(0);
}

TEST(NcclCommunicator, AScaledSumUsesOneOperatorPerScale) {
  run_ranks(2, [](Rank rank) {
    for (int round = 0; round < 3; ++round) {
      std::vector<double> values(5, rank.rank + 1);
      const NcclReduction half{NcclType::kFloat64, NcclOp::kSum, 0.5};
      ASSERT_TRUE(rank.communicator.allreduce(half, in_place(values), rank.stream.handle()).ok());
      ASSERT_TRUE(rank.communicator.settle(patience()).ok());
      rank.stream.synchronize();

      EXPECT_EQ(std::vector<double>(5, 1.5), values);
    }
  });
}

TEST(NcclCommunicator, RowsAreScatteredToRanksAndARootsBytesToAll) {
  run_ranks(2, [](Rank rank) {
    std::vector<float> input{1, 2, 3, 4};
    std::vector<float> own(2);
    const NcclBuffers scattered{reinterpret_cast<const std::byte*>(input.data()),
                                reinterpret_cast<std::byte*>(own.data()), own.size()};
    std::vector<float> to_root{static_cast<float>(rank.rank)};
    std::vector<int16_t> bytes(7, static_cast<int16_t>(rank.rank * 300));

    ASSERT_TRUE(rank.communicator.group_start().ok());
    ASSERT_TRUE(rank.communicator.reduce_scatter(kSum, scattered, rank.stream.handle()).ok());
    ASSERT_TRUE(rank.communicator.reduce(kSum, in_place(to_root), 1, rank.stream.handle()).ok());
    ASSERT_TRUE(rank.communicator.broadcast(bytes_of(bytes), 1, rank.stream.handle()).ok());
    ASSERT_TRUE(rank.communicator.group_end().ok());
    ASSERT_TRUE(rank.communicator.settle(patience()).ok());
    rank.stream.synchronize();

    EXPECT_EQ((rank.rank == 0 ? std::vector<float>{2, 4} : std::vector<float>{6, 8}), own);
    EXPECT_EQ(std::vector<float>{static_cast<float>(rank.rank)}, rank.rank == 0 ? to_root : std::vector<float>{1});
    EXPECT_EQ(1, rank.rank == 0 ? 1 : static_cast<int>(to_root.front()));
    EXPECT_EQ(std::vector<int16_t>(7, 300), bytes);
  });
}

TEST(NcclCommunicator, ARanksBytesGoToAllInTheOrderOfTheRanks) {
  run_ranks(3, [](Rank rank) {
    std::vector<int32_t> own(100'000, rank.rank);
    std::vector<int32_t> all(300'000, -1);
    const NcclBuffers gathered{bytes_of(own).input, bytes_of(all).output, bytes_of(own).elements};

    ASSERT_TRUE(rank.communicator.allgather(gathered, rank.stream.handle()).ok());
    ASSERT_TRUE(rank.communicator.settle(patience()).ok());
    rank.stream.synchronize();

    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(static_cast<int32_t>(i / 100'000), all[i]) << i;
    }
  });
}

TEST(NcclCommunicator, WhatAGroupSendsArrivesHoweverLargeAndInWhicheverOrder) {
  run_ranks(3, [](Rank rank) {
    std::vector<std::vector<int32_t>> sent;
    std::vector<std::vector<int32_t>> received;
    const auto size = [](int from, int to) { return static_cast<size_t>(1 + 20'000 * from + 3'000 * to); };
    for (int peer = 0; peer < 3; ++peer) {
      sent.emplace_back(size(rank.rank, peer), 10 * rank.rank + peer);
      received.emplace_back(size(peer, rank.rank), -1);
    }
    ASSERT_TRUE(rank.communicator.group_start().ok());
    for (int peer = 0; peer < 3; ++peer) {
      const auto at = static_cast<size_t>(peer);
      ASSERT_TRUE(
          rank.communicator.receive(std::as_writable_bytes(std::span(received[at])), peer, rank.stream.handle()).ok());
    }
    for (int peer = 2; peer >= 0; --peer) {
      const auto at = static_cast<size_t>(peer);
      ASSERT_TRUE(rank.communicator.send(std::as_bytes(std::span(sent[at])), peer, rank.stream.handle()).ok());
    }
    ASSERT_TRUE(rank.communicator.group_end().ok());
    ASSERT_TRUE(rank.communicator.settle(patience()).ok());
    rank.stream.synchronize();

    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(std::vector<int32_t>(size(peer, rank.rank), 10 * peer + rank.rank),
                received[static_cast<size_t>(peer)]);
    }
  });
}

TEST(NcclCommunicator, APeerThatAbortsIsARemoteErrorAndAnAbortEndsTheWait) {
  run_ranks(2, [](Rank rank) {
    std::vector<float> values(10, 1);
    if (rank.rank == 1) {
      rank.communicator.abort();
      return;
    }
    ASSERT_TRUE(rank.communicator.allreduce(kSum, in_place(values), rank.stream.handle()).ok());
    Status error = rank.communicator.settle(patience());
    for (const NcclCommunicator::Watch watch = patience(); error.ok() && watch().ok();) {
      error = rank.communicator.error();
    }

    EXPECT_EQ(StatusCode::kDeviceError, error.code());
    EXPECT_NE(std::string::npos, error.message().find("NCCL 2.28.9")) << error.message();
    EXPECT_NE(std::string::npos, error.message().find("the stand-in's last error")) << error.message();
    rank.communicator.abort();
    rank.stream.synchronize();
    EXPECT_EQ(std::vector<float>(10, 1), values);
  });
}

TEST(NcclCommunicator, APartHasTheRanksOfOneColorInTheOrderOfTheirKeys) {
  standin_nccl_delay(300);
  run_ranks(4, [](Rank rank) {
    NcclCommunicator part(load_library());
    ASSERT_TRUE(part.split_off(rank.communicator, {rank.rank % 2, -rank.rank, 3}, patience()).ok());
    std::vector<float> values(7, static_cast<float>(1 << rank.rank));
    std::vector<std::byte> news(1, static_cast<std::byte>(rank.rank));

    const auto sum = [&] { return part.allreduce(kSum, in_place(values), rank.stream.handle()); };
    ASSERT_TRUE(part.run_group(sum, patience()).ok());
    const auto tell = [&] { return part.broadcast(bytes_of(news), 0, rank.stream.handle()); };
    ASSERT_TRUE(part.run_group(tell, patience()).ok());
    rank.stream.synchronize();

    EXPECT_EQ(std::vector<float>(7, rank.rank % 2 == 0 ? 5 : 10), values);
    EXPECT_EQ(static_cast<std::byte>(2 + rank.rank % 2), news[0]) << "the last rank has the smallest key";
    EXPECT_EQ(3, standin_nccl_last_ctas());
    EXPECT_TRUE(part.close(patience()).ok());
    EXPECT_TRUE(rank.communicator.close(patience()).ok());
  });
  standin_nccl_delay(0);
}

TEST(NcclCommunicator, AnAbortOfAPartEndsAlsoWhatHangsOnTheWhole) {
  std::latch both_through(2);
  run_ranks(2, [&both_through](Rank rank) {
    NcclCommunicator part(load_library());
    ASSERT_TRUE(part.split_off(rank.communicator, {0, rank.rank, 0}, patience()).ok());
    if (rank.rank == 0) {
      std::vector<float> values(7, 1);
      const auto sum = [&] { return rank.communicator.allreduce(kSum, in_place(values), rank.stream.handle()); };
      ASSERT_TRUE(rank.communicator.run_group(sum, patience()).ok());
      part.abort();
      rank.stream.synchronize();
      EXPECT_EQ(std::vector<float>(7, 1), values);
    }
    both_through.arrive_and_wait();
  });
}

TEST(NcclCommunicator, ASplitThatFailsOrHangsIsAnError) {
  run_ranks(2, [](Rank rank) {
    NcclCommunicator part(load_library());
    if (rank.rank == 0) {
      standin_nccl_fail("ncclCommSplit", 1, 5);
      const Status status = part.split_off(rank.communicator, {}, patience());
      EXPECT_NE(std::string::npos, status.message().find("ncclCommSplit")) << status.message();
      rank.communicator.abort();
    }
  });
  std::latch both_through(2);  // a rank that ends takes its communicator along
  run_ranks(2, [&both_through](Rank rank) {
    NcclCommunicator part(load_library());
    if (rank.rank == 0) {
      int looks = 0;
      const Status status = part.split_off(rank.communicator, {}, [&looks] {
        return ++looks < 10 ? Status::ok_status() : Status(StatusCode::kPeerLostError, "rank 1 died");
      });
      EXPECT_EQ(StatusCode::kPeerLostError, status.code());
      EXPECT_FALSE(part.is_open() || rank.communicator.is_open());
    }
    both_through.arrive_and_wait();
  });
}

TEST(NcclCommunicator, AWaitForRanksThatNeverComeEndsWithTheWatch) {
  const std::shared_ptr<const NcclLibrary> library = load_library();
  NcclUniqueId id;
  ASSERT_TRUE(NcclCommunicator::make_id(*library, id).ok());
  NcclCommunicator communicator(library);
  ASSERT_TRUE(communicator.begin(id, 0, 2).ok());
  int looks = 0;

  const Status status = communicator.settle(
      [&looks] { return ++looks < 10 ? Status::ok_status() : Status(StatusCode::kPeerLostError, "rank 1 died"); });

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
  communicator.abort();
  EXPECT_FALSE(communicator.is_open());
  EXPECT_EQ(0, standin_nccl_communicators());
}

TEST(NcclCommunicator, EveryFunctionsFailureIsSeen) {
  for (const char* function : {"ncclAllReduce", "ncclGroupEnd", "ncclGroupStart", "ncclRedOpCreatePreMulSum"}) {
    run_ranks(1, [function](Rank rank) {
      std::vector<float> values(10, 1);
      const NcclReduction scaled{NcclType::kFloat32, NcclOp::kSum, 2};
      standin_nccl_fail(function, 1, 1);

      std::vector<Status> results{rank.communicator.group_start()};
      results.push_back(rank.communicator.allreduce(scaled, in_place(values), rank.stream.handle()));
      results.push_back(rank.communicator.group_end());
      rank.communicator.abort();

      EXPECT_EQ(1, std::ranges::count_if(results, [](const Status& status) { return !status.ok(); })) << function;
    });
  }
}

TEST(NcclCommunicator, AFailedMeetingIsAnError) {
  const std::shared_ptr<const NcclLibrary> library = load_library();
  NcclUniqueId id;
  ASSERT_TRUE(NcclCommunicator::make_id(*library, id).ok());
  NcclCommunicator communicator(library);
  standin_nccl_fail("init", 1, 5);
  ASSERT_TRUE(communicator.begin(id, 0, 1).ok());

  const Status status = communicator.settle(patience());

  EXPECT_NE(std::string::npos, status.message().find("invalid usage")) << status.message();
}

}  // namespace
}  // namespace ringtune
