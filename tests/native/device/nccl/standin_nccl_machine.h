// SPDX-License-Identifier: Apache-2.0
// Machine behind the stand-in for NCCL: ranks meet in a file of /dev/shm; operations run on the stand-in driver's
// streams.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/nccl/nccl_abi.h"
#include "device/nccl/standin_nccl_arithmetic.h"
#include "device/standin_cuda.h"

namespace ringtune {

inline constexpr int kSystemError = 2;
inline constexpr int kInvalidArgument = 4;
inline constexpr int kMaxRanks = 8;
inline constexpr size_t kSlotBytes = 256 << 10;
inline constexpr size_t kBoxBytes = 16 << 10;
inline constexpr int kFirstOwnOp = 5;

// Carries data from one rank to another, a piece at a time.
struct Box {
  std::atomic<uint64_t> filled;   // number of pieces so far
  std::atomic<uint64_t> emptied;  // likewise
  std::byte piece[kBoxBytes];
};

// Place that a rank wants when its communicator is split.
struct Bid {
  int color;
  int key;
};

struct Meeting {
  Bid bids[kMaxRanks];
  std::atomic<int> pids[kMaxRanks];
  std::atomic<bool> has_left[kMaxRanks];
  std::atomic<uint64_t> steps[kMaxRanks];
  alignas(64) std::byte slots[kMaxRanks][kSlotBytes];
  alignas(64) Box boxes[kMaxRanks][kMaxRanks];  // sender, receiver
};

// State of the library that outlives every call, as NCCL's own.
struct Library {
  std::mutex mutex;                                     // guards the members below
  std::map<std::string, std::pair<int, int>> failures;  // function: calls left until it fails, and how
  std::mt19937_64 random{
      std::getenv("STANDIN_SEED") == nullptr ? 1 : std::strtoull(std::getenv("STANDIN_SEED"), nullptr, 10)};
  std::atomic<int> communicators{0};
  std::atomic<int> kernels{0};
  std::atomic<int> max_delay_us{0};
  std::atomic<int> losses{0};
  std::atomic<int> last_ctas{0};
};

inline Library& library() {
  static Library* const instance = new Library;
  return *instance;
}

inline int injected(const char* function) {
  const std::lock_guard lock(library().mutex);
  const auto found = library().failures.find(function);
  if (found == library().failures.end() || --found->second.first > 0) {
    return 0;
  }
  const int code = found->second.second;
  library().failures.erase(found);
  return code;
}

inline void delay() {
  const int limit_us = library().max_delay_us.load();
  if (limit_us == 0) {
    return;
  }
  int us = 0;
  {
    const std::lock_guard lock(library().mutex);
    us = std::uniform_int_distribution<int>(0, limit_us)(library().random);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

// A communicator and those that were split off from it, on one GPU.
struct Family {
  std::atomic<int> kernels{0};  // those under way: an abort waits for all, for it frees memory of the GPU
};

struct NcclOpaque {
  Meeting* meeting = nullptr;
  std::string path;
  int rank = 0;
  int world_size = 0;
  int max_ctas = 0;
  std::atomic<int> state{kNcclInProgress};
  bool is_shared = false;  // parts that are split off have the flag below, too
  std::shared_ptr<std::atomic<bool>> is_aborted = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Family> family = std::make_shared<Family>();
  std::atomic<std::thread::id> ended_by{};  // the thread that has ended a group, and not joined NCCL's thread since
  const int losses_before = library().losses.load();
  std::atomic<int> in_flight{0};  // operations and threads that use the communicator
  std::vector<std::pair<NcclType, double>> own_ops;

  bool is_alone_forever(int peer) const {
    const int pid = meeting->pids[peer].load();
    return library().losses.load() != losses_before || meeting->has_left[peer].load() ||
           (pid != 0 && kill(pid, 0) != 0 && errno == ESRCH);
  }

  // False once this rank is aborted. A lost peer is reported, and waited for all the same, as a kernel does.
  bool wait_a_little_for(int peer) {
    if (is_aborted->load()) {
      return false;
    }
    if (is_alone_forever(peer)) {
      state.store(kNcclRemoteError);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    return true;
  }

  bool meet() {
    const uint64_t step = ++meeting->steps[rank];
    for (int peer = 0; peer < world_size; ++peer) {
      while (meeting->steps[peer].load() < step || library().losses.load() != losses_before) {
        if (!wait_a_little_for(peer)) {
          return false;
        }
      }
    }
    return true;
  }
};

using Communicator = NcclOpaque;

enum class Kind { kAllreduce, kReduce, kReduceScatter, kBroadcast, kAllgather, kSend, kReceive };

struct Operation {
  Kind kind;
  const std::byte* input;
  std::byte* output;
  size_t elements;  // number of elements of the output
  NcclType type;
  int op;
  int root;  // the peer, where the operation is a send or receive
  Communicator* communicator;
  NcclStream stream;
};

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
};
inline thread_local Group group;

inline testing::Combination combination_of(const Operation& operation) {
  if (operation.op < kFirstOwnOp) {
    return {operation.type, static_cast<NcclOp>(operation.op), std::nullopt};
  }
  const auto& own_ops = operation.communicator->own_ops;
  return {operation.type, NcclOp::kSum, own_ops[static_cast<size_t>(operation.op - kFirstOwnOp)].second};
}

inline void combine_slots(const Operation& operation, size_t elements, std::byte* output) {
  const std::byte* inputs[kMaxRanks];
  for (int rank = 0; rank < operation.communicator->world_size; ++rank) {
    inputs[rank] = operation.communicator->meeting->slots[rank];
  }
  const auto ranks = static_cast<size_t>(operation.communicator->world_size);
  testing::combine(combination_of(operation), {inputs, ranks}, elements, output);
}

// One piece: from every rank's `input`; its result goes to `output` where this rank gets one.
inline bool run_piece(const Operation& operation, const std::byte* input, std::byte* output, size_t elements) {
  Communicator& communicator = *operation.communicator;
  const size_t bytes = elements * testing::bytes_of(operation.type);
  std::memcpy(communicator.meeting->slots[communicator.rank], input, bytes);
  if (!communicator.meet()) {
    return false;
  }
  if (operation.kind == Kind::kBroadcast) {
    std::memcpy(output, communicator.meeting->slots[operation.root], bytes);
  } else if (operation.kind == Kind::kAllgather) {
    const size_t part_bytes = operation.elements * testing::bytes_of(operation.type);
    for (int rank = 0; rank < communicator.world_size; ++rank) {
      std::memcpy(output + static_cast<size_t>(rank) * part_bytes, communicator.meeting->slots[rank], bytes);
    }
  } else if (output != nullptr) {
    combine_slots(operation, elements, output);
  }
  return communicator.meet();
}

// The whole of one rank's result; `output` is null where this rank gets none.
inline bool run_part(const Operation& operation, const std::byte* input, std::byte* output) {
  const size_t width = testing::bytes_of(operation.type);
  const size_t most = kSlotBytes / width;
  for (size_t begin = 0; begin < operation.elements; begin += most) {
    const size_t count = std::min(most, operation.elements - begin);
    std::byte* piece = output == nullptr ? nullptr : output + begin * width;
    if (!run_piece(operation, input + begin * width, piece, count)) {
      return false;
    }
  }
  return true;
}

// The next piece of a send or receive, if the peer is there for it.
inline bool move_piece(const Operation& operation, size_t& moved) {
  const Communicator& communicator = *operation.communicator;
  const bool is_sent = operation.kind == Kind::kSend;
  auto& boxes = communicator.meeting->boxes;
  Box& box = is_sent ? boxes[communicator.rank][operation.root] : boxes[operation.root][communicator.rank];
  const size_t count = std::min(kBoxBytes, operation.elements - moved);
  if (is_sent && box.filled.load() == box.emptied.load()) {
    std::memcpy(box.piece, operation.input + moved, count);
    ++box.filled;
  } else if (!is_sent && box.filled.load() > box.emptied.load()) {
    std::memcpy(operation.output + moved, box.piece, count);
    ++box.emptied;
  } else {
    return false;
  }
  moved += count;
  return true;
}

// A group's sends and receives, all at once: none waits for the one before it.
inline void exchange(const std::vector<Operation>& operations) {
  delay();
  std::vector<size_t> moved(operations.size(), 0);
  for (bool is_over = false; !is_over;) {
    bool has_moved = false;
    const Operation* waiting = nullptr;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (moved[i] < operations[i].elements) {
        has_moved |= move_piece(operations[i], moved[i]);
        waiting = &operations[i];
      }
    }
    is_over = waiting == nullptr;
    if (!is_over && !has_moved && !waiting->communicator->wait_a_little_for(waiting->root)) {
      return;
    }
  }
}

inline void run(const Operation& operation) {
  delay();
  const Communicator& communicator = *operation.communicator;
  if (operation.kind != Kind::kReduceScatter) {
    const bool is_mine = operation.kind != Kind::kReduce || operation.root == communicator.rank;
    run_part(operation, operation.input, is_mine ? operation.output : nullptr);
    return;
  }
  const size_t part_bytes = operation.elements * testing::bytes_of(operation.type);
  for (int rank = 0; rank < communicator.world_size; ++rank) {
    std::byte* output = rank == communicator.rank ? operation.output : nullptr;
    if (!run_part(operation, operation.input + static_cast<size_t>(rank) * part_bytes, output)) {
      return;
    }
  }
}

// One collective, or all sends and receives of a group.
inline void run_on_stream(void* data) {
  const std::unique_ptr<std::vector<Operation>> kernel(static_cast<std::vector<Operation>*>(data));
  const Operation& first = kernel->front();
  if (first.kind == Kind::kSend || first.kind == Kind::kReceive) {
    exchange(*kernel);
  } else {
    run(first);
  }
  --library().kernels;
  --first.communicator->family->kernels;
  --first.communicator->in_flight;
}

inline std::vector<std::vector<Operation>> kernels_of(const std::vector<Operation>& operations) {
  std::vector<std::vector<Operation>> kernels;
  std::vector<Operation> exchanged;
  for (const Operation& operation : operations) {
    if (operation.kind == Kind::kSend || operation.kind == Kind::kReceive) {
      exchanged.push_back(operation);
    } else {
      kernels.push_back({operation});
    }
  }
  if (!exchanged.empty()) {
    kernels.push_back(std::move(exchanged));
  }
  return kernels;
}

// Runs in place of the thread of NCCL that works after ncclGroupEnd.
inline void enqueue(const std::vector<Operation>& operations, Communicator* communicator) {
  delay();
  for (std::vector<Operation>& kernel : kernels_of(operations)) {
    ++library().kernels;
    ++communicator->family->kernels;
    ++communicator->in_flight;
    const NcclStream stream = kernel.front().stream;
    standin_work(stream, run_on_stream, new std::vector<Operation>(std::move(kernel)), 0);
  }
  int expected = kNcclInProgress;  // a peer may have been lost meanwhile
  communicator->state.compare_exchange_strong(expected, kNcclSuccess);
  --communicator->in_flight;
}

inline int end_group() {
  std::vector<Operation> operations = std::exchange(group.operations, {});
  if (operations.empty()) {
    return kNcclSuccess;
  }
  Communicator* communicator = operations.front().communicator;
  communicator->state.store(kNcclInProgress);
  communicator->ended_by.store(std::this_thread::get_id());
  ++communicator->in_flight;
  std::thread(enqueue, std::move(operations), communicator).detach();
  return kNcclInProgress;
}

inline int add(const char* function, const Operation& operation) {
  if (const int code = injected(function); code != 0) {
    return code;
  }
  const std::thread::id ended_by = operation.communicator->ended_by.load();
  const bool is_joined = ended_by == std::thread::id() || ended_by == std::this_thread::get_id();
  if (operation.communicator->state.load() == kNcclInProgress || !is_joined) {
    return kInvalidArgument;  // the caller has not settled
  }
  library().last_ctas.store(operation.communicator->max_ctas);
  group.operations.push_back(operation);
  return group.depth == 0 ? end_group() : kNcclSuccess;
}

}  // namespace ringtune
