// SPDX-License-Identifier: Apache-2.0
// A libnccl.so.2 for tests without a GPU: ranks that are threads or processes meet in a file of /dev/shm.
//
// Operations run on the streams of the stand-in driver . As in a communicator of NCCL that does not
// block, a group's operations are enqueued after `ncclGroupEnd` has returned, by another thread; a rank that waits for
// a peer hangs until it is aborted; a peer that has died or was aborted shows as a remote error.
#include "device/standin_nccl.h"

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

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/nccl/nccl_abi.h"
#include "device/standin_cuda.h"
#include "device/standin_nccl_arithmetic.h"

namespace {

using ringtune::NcclConfig;
using ringtune::NcclOp;
using ringtune::NcclStream;
using ringtune::NcclType;
using ringtune::NcclUniqueId;
using ringtune::testing::bytes_of;
using ringtune::testing::Combination;
using ringtune::testing::combine;

constexpr int kSystemError = 2;
constexpr int kInvalidArgument = 4;
constexpr int kMaxRanks = 8;
constexpr size_t kSlotBytes = 256 << 10;
constexpr int kFirstOwnOp = 5;

struct Meeting {
  std::atomic<int> attached;
  std::atomic<int> pids[kMaxRanks];
  std::atomic<bool> has_left[kMaxRanks];
  std::atomic<uint64_t> steps[kMaxRanks];
  alignas(64) std::byte slots[kMaxRanks][kSlotBytes];
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
};

Library& library() {
  static Library& instance = *new Library;
  return instance;
}

int injected(const char* function) {
  const std::lock_guard lock(library().mutex);
  const auto found = library().failures.find(function);
  if (found == library().failures.end() || --found->second.first > 0) {
    return 0;
  }
  const int code = found->second.second;
  library().failures.erase(found);
  return code;
}

void delay() {
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

}  // namespace

namespace ringtune {

struct NcclOpaque {
  Meeting* meeting = nullptr;
  std::string path;
  int rank = 0;
  int world_size = 0;
  std::atomic<int> state{kNcclInProgress};
  std::atomic<bool> is_aborted{false};
  const int losses_before = library().losses.load();
  std::atomic<int> in_flight{0};  // operations and threads that use the communicator
  std::vector<std::pair<NcclType, double>> own_ops;

  bool is_alone_forever(int peer) const {
    const int pid = meeting->pids[peer].load();
    return library().losses.load() != losses_before || meeting->has_left[peer].load() ||
           (pid != 0 && kill(pid, 0) != 0 && errno == ESRCH);
  }

  // False once this rank is aborted. A lost peer is told, and waited for all the same, as a kernel does.
  bool meet() {
    const uint64_t step = ++meeting->steps[rank];
    for (int peer = 0; peer < world_size; ++peer) {
      while (meeting->steps[peer].load() < step || library().losses.load() != losses_before) {
        if (is_aborted.load()) {
          return false;
        }
        if (is_alone_forever(peer)) {
          state.store(kNcclRemoteError);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
    return true;
  }
};

}  // namespace ringtune

namespace {

using Communicator = ringtune::NcclOpaque;

enum class Kind { kAllreduce, kReduce, kReduceScatter, kBroadcast };

struct Operation {
  Kind kind;
  const std::byte* input;
  std::byte* output;
  size_t elements;  // of the output
  NcclType type;
  int op;
  int root;
  Communicator* communicator;
  NcclStream stream;
};

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
};
thread_local Group group;

Combination combination_of(const Operation& operation) {
  if (operation.op < kFirstOwnOp) {
    return {operation.type, static_cast<NcclOp>(operation.op), std::nullopt};
  }
  const auto& own_ops = operation.communicator->own_ops;
  return {operation.type, NcclOp::kSum, own_ops[static_cast<size_t>(operation.op - kFirstOwnOp)].second};
}

void combine_slots(const Operation& operation, size_t elements, std::byte* output) {
  const std::byte* inputs[kMaxRanks];
  for (int rank = 0; rank < operation.communicator->world_size; ++rank) {
    inputs[rank] = operation.communicator->meeting->slots[rank];
  }
  const auto ranks = static_cast<size_t>(operation.communicator->world_size);
  combine(combination_of(operation), {inputs, ranks}, elements, output);
}

// One piece: from every rank's `input`; its result goes to `output` where this rank gets one.
bool run_piece(const Operation& operation, const std::byte* input, std::byte* output, size_t elements) {
  Communicator& communicator = *operation.communicator;
  const size_t bytes = elements * bytes_of(operation.type);
  std::memcpy(communicator.meeting->slots[communicator.rank], input, bytes);
  if (!communicator.meet()) {
    return false;
  }
  if (operation.kind == Kind::kBroadcast) {
    std::memcpy(output, communicator.meeting->slots[operation.root], bytes);
  } else if (output != nullptr) {
    combine_slots(operation, elements, output);
  }
  return communicator.meet();
}

// The whole of one rank's result; `output` is null where this rank gets none.
bool run_part(const Operation& operation, const std::byte* input, std::byte* output) {
  const size_t width = bytes_of(operation.type);
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

void run(const Operation& operation) {
  delay();
  const Communicator& communicator = *operation.communicator;
  if (operation.kind != Kind::kReduceScatter) {
    const bool is_mine = operation.kind != Kind::kReduce || operation.root == communicator.rank;
    run_part(operation, operation.input, is_mine ? operation.output : nullptr);
    return;
  }
  const size_t part_bytes = operation.elements * bytes_of(operation.type);
  for (int rank = 0; rank < communicator.world_size; ++rank) {
    std::byte* output = rank == communicator.rank ? operation.output : nullptr;
    if (!run_part(operation, operation.input + static_cast<size_t>(rank) * part_bytes, output)) {
      return;
    }
  }
}

void run_on_stream(void* data) {
  const std::unique_ptr<Operation> operation(static_cast<Operation*>(data));
  run(*operation);
  --library().kernels;
  --operation->communicator->in_flight;
}

// What NCCL's own thread does after ncclGroupEnd.
void enqueue(std::vector<Operation> operations, Communicator* communicator) {
  delay();
  for (const Operation& operation : operations) {
    ++library().kernels;
    ++communicator->in_flight;
    standin_work(operation.stream, run_on_stream, new Operation(operation), 0);
  }
  int expected = ringtune::kNcclInProgress;  // a peer may have been lost meanwhile
  communicator->state.compare_exchange_strong(expected, ringtune::kNcclSuccess);
  --communicator->in_flight;
}

int end_group() {
  std::vector<Operation> operations = std::exchange(group.operations, {});
  if (operations.empty()) {
    return ringtune::kNcclSuccess;
  }
  Communicator* communicator = operations.front().communicator;
  communicator->state.store(ringtune::kNcclInProgress);
  ++communicator->in_flight;
  std::thread(enqueue, std::move(operations), communicator).detach();
  return ringtune::kNcclInProgress;
}

int add(const char* function, const Operation& operation) {
  if (const int code = injected(function); code != 0) {
    return code;
  }
  if (operation.communicator->state.load() == ringtune::kNcclInProgress) {
    return kInvalidArgument;  // the caller has not settled
  }
  group.operations.push_back(operation);
  return group.depth == 0 ? end_group() : ringtune::kNcclSuccess;
}

Meeting* map_meeting(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  void* memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Meeting*>(memory);
}

void join_meeting(Communicator* communicator) {
  delay();
  const int code = injected("init");
  if (code == 0 && communicator->meet()) {
    if (communicator->rank == 0) {
      unlink(communicator->path.c_str());
    }
    communicator->state.store(ringtune::kNcclSuccess);
  } else if (code != 0) {
    communicator->state.store(code);
  }
  --communicator->in_flight;
}

void leave(Communicator* communicator) {
  while (communicator->in_flight.load() != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  communicator->meeting->has_left[communicator->rank].store(true);
  munmap(communicator->meeting, sizeof(Meeting));
  --library().communicators;
  delete communicator;
}

}  // namespace

extern "C" {

void standin_nccl_fail(const char* function, int call, int code) {
  const std::lock_guard lock(library().mutex);
  library().failures[function] = {call, code};
}

void standin_nccl_delay(int max_us) { library().max_delay_us.store(max_us); }

void standin_nccl_lose() { ++library().losses; }

int standin_nccl_communicators() { return library().communicators.load(); }

int standin_nccl_kernels() { return library().kernels.load(); }

int ncclGetVersion(int* version) {
  *version = 22809;
  return injected("ncclGetVersion");
}

int ncclGetUniqueId(NcclUniqueId* id) {
  static std::atomic<int> made{0};
  const std::string path = "/dev/shm/standin-nccl." + std::to_string(getpid()) + "." + std::to_string(++made);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Meeting)) != 0) {
    return kSystemError;
  }
  close(fd);
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->bytes, path.c_str(), path.size());
  return injected("ncclGetUniqueId");
}

const char* ncclGetErrorString(int result) {
  constexpr const char* kTexts[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return kTexts[result & 7];
}

const char* ncclGetLastError(Communicator*) { return "the stand-in's last error"; }

int ncclCommInitRankConfig(Communicator** result, int world_size, NcclUniqueId id, int rank, const NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || world_size > kMaxRanks) {
    return kInvalidArgument;
  }
  if (const int code = injected("ncclCommInitRankConfig"); code != 0) {
    return code;
  }
  Meeting* meeting = map_meeting(id.bytes);
  if (meeting == nullptr) {
    return kSystemError;
  }
  auto* communicator = new Communicator;
  communicator->meeting = meeting;
  communicator->path = id.bytes;
  communicator->rank = rank;
  communicator->world_size = world_size;
  meeting->pids[rank].store(getpid());
  ++library().communicators;
  ++communicator->in_flight;
  std::thread(join_meeting, communicator).detach();
  *result = communicator;
  return ringtune::kNcclInProgress;
}

int ncclCommGetAsyncError(Communicator* communicator, int* state) {
  *state = communicator->state.load();
  return injected("ncclCommGetAsyncError");
}

int ncclCommFinalize(Communicator* communicator) {
  const int code = injected("ncclCommFinalize");
  if (code == 0) {
    communicator->state.store(ringtune::kNcclInProgress);
    ++communicator->in_flight;
    std::thread([communicator] {
      while (communicator->in_flight.load() > 1 && !communicator->is_aborted.load()) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      communicator->state.store(ringtune::kNcclSuccess);
      --communicator->in_flight;
    }).detach();
  }
  return code == 0 ? ringtune::kNcclInProgress : code;
}

int ncclCommDestroy(Communicator* communicator) {
  leave(communicator);
  return injected("ncclCommDestroy");
}

int ncclCommAbort(Communicator* communicator) {
  communicator->is_aborted.store(true);
  leave(communicator);
  return injected("ncclCommAbort");
}

int ncclGroupStart() {
  ++group.depth;
  return injected("ncclGroupStart");
}

int ncclGroupEnd() {
  if (--group.depth > 0) {
    return ringtune::kNcclSuccess;
  }
  if (const int code = injected("ncclGroupEnd"); code != 0) {
    group.operations.clear();
    return code;
  }
  return end_group();
}

int ncclAllReduce(const std::byte* input, std::byte* output, size_t count, int type, int op, Communicator* communicator,
                  NcclStream stream) {
  return add("ncclAllReduce",
             {Kind::kAllreduce, input, output, count, static_cast<NcclType>(type), op, 0, communicator, stream});
}

int ncclReduce(const std::byte* input, std::byte* output, size_t count, int type, int op, int root,
               Communicator* communicator, NcclStream stream) {
  return add("ncclReduce",
             {Kind::kReduce, input, output, count, static_cast<NcclType>(type), op, root, communicator, stream});
}

int ncclReduceScatter(const std::byte* input, std::byte* output, size_t count, int type, int op,
                      Communicator* communicator, NcclStream stream) {
  return add("ncclReduceScatter",
             {Kind::kReduceScatter, input, output, count, static_cast<NcclType>(type), op, 0, communicator, stream});
}

int ncclBroadcast(const std::byte* input, std::byte* output, size_t count, int type, int root,
                  Communicator* communicator, NcclStream stream) {
  return add("ncclBroadcast",
             {Kind::kBroadcast, input, output, count, static_cast<NcclType>(type), 0, root, communicator, stream});
}

int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int, Communicator* communicator) {
  double scale = 0;
  if (static_cast<NcclType>(type) == NcclType::kFloat64) {
    std::memcpy(&scale, scalar, sizeof(scale));
  } else if (static_cast<NcclType>(type) == NcclType::kBFloat16) {
    ringtune::BFloat16 value{};
    std::memcpy(&value, scalar, sizeof(value));
    scale = to_float(value);
  } else {
    float value = 0;
    std::memcpy(&value, scalar, sizeof(value));
    scale = value;
  }
  communicator->own_ops.emplace_back(static_cast<NcclType>(type), scale);
  *op = kFirstOwnOp + static_cast<int>(communicator->own_ops.size()) - 1;
  return injected("ncclRedOpCreatePreMulSum");
}

}  // extern "C"
