// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's binary interface that the engine uses, in declarations of our own: no header of NVIDIA's is needed
// to build.
//
// Facts used, from NVIDIA's published interface (NVIDIA/nccl, src/nccl.h.in and src/init.cc, 2.18 to 2.31):
// - Functions return an int, 0 for success. On a communicator that does not block, 7 means "still at it": the caller
//   asks ncclCommGetAsyncError until the answer is another one, and makes no other call on it meanwhile.
// - Operations are numbered sum, product, max, min, average; element types as in NcclType.
// - The configuration is read as far as its own `size` says; members behind it have NCCL's defaults. Members are only
//   ever added at the end. The magic number is checked; `version` says which members the caller knew (blocking: 2.14,
//   cgaClusterSize, minCTAs, maxCTAs, netName: 2.17, splitShare: 2.18). A short structure of an older version is
//   therefore legal in newer libraries.
// - A split makes a communicator of those ranks of another one that name the same color, in the order of their keys.
//   All ranks of the other one take part, and find it busy until the new one's handle is there, which a thread of
//   NCCL's writes, also where the split fails: an abort of the other one waits for that thread. If the *other one* was
//   made with splitShare, the two share buffers, connections and the flag that aborts kernels; they must not be used at
//   the same time. No operation may be under way on the other one during the split.
// - ncclCommAbort frees memory of the GPU, and so waits for all kernels there, also for those of communicators with a
//   flag of their own.
// - Before 2.22 the thread that ends a group must join NCCL's thread, by a call such as ncclCommCount.
// - The unique id, 128 bytes, travels by value.
// - cudaStream_t is the driver's CUstream.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace ringtune {

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclRemoteError = 6;
inline constexpr int kNcclInProgress = 7;

enum class NcclOp : int { kSum, kProduct, kMax, kMin };

enum class NcclType : int {
  kInt8,
  kUInt8,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBFloat16,
};

struct NcclUniqueId {
  char bytes[128];
};

inline constexpr int kNcclUndefined = INT_MIN;

struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = 0;
  int cga_cluster_size = kNcclUndefined;
  int min_ctas = kNcclUndefined;
  int max_ctas = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = 1;
};
static_assert(sizeof(NcclConfig) == 48);

using NcclHandle = struct NcclOpaque*;
using NcclStream = void*;

inline constexpr int kNcclScalarOnHost = 1;

// One member per function, in the order of kNcclSymbols.
struct NcclFunctions {
  int (*get_version)(int* version);
  int (*get_unique_id)(NcclUniqueId* id);
  const char* (*error_text)(int result);
  const char* (*last_error)(NcclHandle communicator);
  int (*init_rank)(NcclHandle* communicator, int world_size, NcclUniqueId id, int rank, const NcclConfig* config);
  int (*split)(NcclHandle communicator, int color, int key, NcclHandle* part, const NcclConfig* config);
  int (*async_error)(NcclHandle communicator, int* result);
  int (*finalize)(NcclHandle communicator);
  int (*destroy)(NcclHandle communicator);
  int (*abort)(NcclHandle communicator);
  int (*count)(NcclHandle communicator, int* ranks);
  int (*group_start)();
  int (*group_end)();
  int (*allreduce)(const void* input, void* output, size_t count, int type, int op, NcclHandle communicator,
                   NcclStream stream);
  int (*reduce)(const void* input, void* output, size_t count, int type, int op, int root, NcclHandle communicator,
                NcclStream stream);
  int (*reduce_scatter)(const void* input, void* output, size_t count_of_a_rank, int type, int op,
                        NcclHandle communicator, NcclStream stream);
  int (*broadcast)(const void* input, void* output, size_t count, int type, int root, NcclHandle communicator,
                   NcclStream stream);
  int (*allgather)(const void* input, void* output, size_t count_of_a_rank, int type, NcclHandle communicator,
                   NcclStream stream);
  int (*send)(const void* input, size_t count, int type, int peer, NcclHandle communicator, NcclStream stream);
  int (*receive)(void* output, size_t count, int type, int peer, NcclHandle communicator, NcclStream stream);
  int (*make_scaled_sum)(int* op, void* scalar, int type, int residence, NcclHandle communicator);
};

inline constexpr const char* kNcclSymbols[] = {
    "ncclGetVersion",
    "ncclGetUniqueId",
    "ncclGetErrorString",
    "ncclGetLastError",
    "ncclCommInitRankConfig",
    "ncclCommSplit",
    "ncclCommGetAsyncError",
    "ncclCommFinalize",
    "ncclCommDestroy",
    "ncclCommAbort",
    "ncclCommCount",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclAllReduce",
    "ncclReduce",
    "ncclReduceScatter",
    "ncclBroadcast",
    "ncclAllGather",
    "ncclSend",
    "ncclRecv",
    "ncclRedOpCreatePreMulSum",
};
static_assert(sizeof(NcclFunctions) == sizeof(kNcclSymbols));

}  // namespace ringtune
