// SPDX-License-Identifier: Apache-2.0
// A libnccl.so.2 for tests without a GPU: ranks that are threads or processes meet in a file of /dev/shm.
//
// Operations run on the streams of the stand-in driver. As in a communicator of NCCL that does not block, a group's
// operations are enqueued after `ncclGroupEnd` has returned, by another thread; a rank that waits for a peer hangs
// until it is aborted; a peer that has died or was aborted shows as a remote error.
#include "device/nccl/standin_nccl.h"

#include <optional>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/nccl/standin_nccl_machine.h"

using namespace ringtune;

extern "C" {
int ncclGetUniqueId(NcclUniqueId* id);
}

namespace {

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
    communicator->state.store(kNcclSuccess);
  } else if (code != 0) {
    communicator->state.store(code);
  }
  --communicator->in_flight;
}

// A rank comes to the meeting of a communicator, which another one may be the whole of.
int begin_meeting(Communicator** result, int world_size, const NcclUniqueId& id, int rank, const Communicator* whole) {
  Meeting* meeting = map_meeting(id.bytes);
  if (meeting == nullptr) {
    return kSystemError;
  }
  auto* communicator = new Communicator;
  communicator->meeting = meeting;
  communicator->path = id.bytes;
  communicator->rank = rank;
  communicator->world_size = world_size;
  if (whole != nullptr) {
    communicator->family = whole->family;
    communicator->is_aborted = whole->is_shared ? whole->is_aborted : communicator->is_aborted;
  }
  meeting->pids[rank].store(getpid());
  ++library().communicators;
  ++communicator->in_flight;
  std::thread(join_meeting, communicator).detach();
  *result = communicator;
  return kNcclInProgress;
}

// A rank's place in a part of a communicator.
struct Place {
  int rank;
  int ranks;
  int first;  // number of the part's first rank in the whole
};

// All ranks tell each other their wanted places; no value if one rank does not come.
std::optional<Place> find_place(Communicator& whole, const Bid& own) {
  Meeting& meeting = *whole.meeting;
  meeting.bids[whole.rank] = own;
  if (!whole.meet()) {
    return std::nullopt;
  }
  Place place{0, 0, whole.rank};
  for (int peer = 0; peer < whole.world_size; ++peer) {
    if (meeting.bids[peer].color == own.color) {
      ++place.ranks;
      place.rank += static_cast<int>(meeting.bids[peer].key < own.key);
      place.first = meeting.bids[peer].key < meeting.bids[place.first].key ? peer : place.first;
    }
  }
  return place;
}

// The first rank of each part makes its meeting, and tells the others.
bool meet_part(Communicator& whole, const Place& place, NcclUniqueId& id) {
  Meeting& meeting = *whole.meeting;
  if (place.first == whole.rank && ncclGetUniqueId(&id) == kNcclSuccess) {
    std::memcpy(meeting.slots[whole.rank], &id, sizeof(id));
  }
  const bool is_there = whole.meet();
  std::memcpy(&id, meeting.slots[place.first], sizeof(id));
  return is_there && whole.meet();
}

void split(Communicator* whole, Bid own, Communicator** result, int max_ctas) {
  delay();
  const std::optional<Place> place = find_place(*whole, own);
  NcclUniqueId id;
  int code = kNcclRemoteError;
  if (place && meet_part(*whole, *place, id)) {
    code = begin_meeting(result, place->ranks, id, place->rank, whole);
    (*result)->max_ctas = max_ctas == kNcclUndefined ? 0 : max_ctas;
  } else {
    delay();
    *result = new Communicator;  // of a split that has failed, too
    (*result)->state.store(kNcclRemoteError);
    ++library().communicators;
  }
  whole->state.store(code == kNcclInProgress ? kNcclSuccess : kNcclRemoteError);
  --whole->in_flight;
}

void leave(Communicator* communicator) {
  while (communicator->in_flight.load() != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (communicator->meeting != nullptr) {
    communicator->meeting->has_left[communicator->rank].store(true);
    munmap(communicator->meeting, sizeof(Meeting));
    if (communicator->rank == 0) {
      unlink(communicator->path.c_str());  // of a meeting that was given up, too
    }
  }
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

int standin_nccl_last_ctas() { return library().last_ctas.load(); }

int ncclGetVersion(int* version) {
  *version = 22809;
  return injected("ncclGetVersion");
}

int ncclGetUniqueId(NcclUniqueId* id) {
  std::string path = "/dev/shm/standin-nccl.XXXXXX";  // never that of a file which a killed process has left behind
  const int fd = mkostemp(path.data(), O_CLOEXEC);
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
  const int code = begin_meeting(result, world_size, id, rank, nullptr);
  if (code == kNcclInProgress) {
    (*result)->is_shared = config->split_share == 1;
  }
  return code;
}

int ncclCommSplit(Communicator* whole, int color, int key, Communicator** part, const NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) {
    return kInvalidArgument;
  }
  if (const int code = injected("ncclCommSplit"); code != 0) {
    return code;
  }
  if (whole->state.load() == kNcclInProgress || whole->family->kernels.load() != 0) {
    return kInvalidArgument;
  }
  whole->state.store(kNcclInProgress);
  ++whole->in_flight;
  std::thread(split, whole, Bid{color, key}, part, config->max_ctas).detach();
  return kNcclInProgress;
}

int ncclCommGetAsyncError(Communicator* communicator, int* state) {
  *state = communicator->state.load();
  return injected("ncclCommGetAsyncError");
}

int ncclCommFinalize(Communicator* communicator) {
  const int code = injected("ncclCommFinalize");
  if (code == 0) {
    communicator->state.store(kNcclInProgress);
    ++communicator->in_flight;
    std::thread([communicator] {
      while (communicator->in_flight.load() > 1 && !communicator->is_aborted->load()) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      communicator->state.store(kNcclSuccess);
      --communicator->in_flight;
    }).detach();
  }
  return code == 0 ? kNcclInProgress : code;
}

int ncclCommDestroy(Communicator* communicator) {
  leave(communicator);
  return injected("ncclCommDestroy");
}

int ncclCommAbort(Communicator* communicator) {
  communicator->is_aborted->store(true);
  while (communicator->family->kernels.load() != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  leave(communicator);
  return injected("ncclCommAbort");
}

int ncclCommCount(Communicator* communicator, int* ranks) {
  *ranks = communicator->world_size;
  std::thread::id own = std::this_thread::get_id();
  communicator->ended_by.compare_exchange_strong(own, {});
  return injected("ncclCommCount");
}

int ncclGroupStart() {
  ++group.depth;
  return injected("ncclGroupStart");
}

int ncclGroupEnd() {
  if (--group.depth > 0) {
    return kNcclSuccess;
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

int ncclAllGather(const std::byte* input, std::byte* output, size_t count, int type, Communicator* communicator,
                  NcclStream stream) {
  return add("ncclAllGather",
             {Kind::kAllgather, input, output, count, static_cast<NcclType>(type), 0, 0, communicator, stream});
}

int ncclSend(const std::byte* input, size_t count, int type, int peer, Communicator* communicator, NcclStream stream) {
  return add("ncclSend",
             {Kind::kSend, input, nullptr, count, static_cast<NcclType>(type), 0, peer, communicator, stream});
}

int ncclRecv(std::byte* output, size_t count, int type, int peer, Communicator* communicator, NcclStream stream) {
  return add("ncclRecv",
             {Kind::kReceive, nullptr, output, count, static_cast<NcclType>(type), 0, peer, communicator, stream});
}

int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int, Communicator* communicator) {
  double scale = 0;
  if (static_cast<NcclType>(type) == NcclType::kFloat64) {
    std::memcpy(&scale, scalar, sizeof(scale));
  } else if (static_cast<NcclType>(type) == NcclType::kBFloat16) {
    BFloat16 value{};
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
