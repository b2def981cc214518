// SPDX-License-Identifier: Apache-2.0
// The binary interface between NCCL and a tuner plugin, versions 4, 5 and 6, in declarations of our own.
//
// Facts used, from NVIDIA's published interface (NVIDIA/nccl, src/include/plugin/tuner and nccl_common.h, and how
// src/plugin and enqueue.cc use it, as of 2026):
// - NCCL looks up the symbols ncclTunerPlugin_v6, _v5 and _v4 in this order, after newer ones that it may know. The
//   structures stay in the plugin.
// - Each is a name followed by function pointers in the order given here. v4's init has its context last and no
//   communicator; v5 and v6 have it first, and two structures at the end that a plugin need not touch (domains,
//   constants). v6 adds getChunkSize, which may be null.
// - Result 0 is success. Whatever else init or getCollInfo returns fails the caller's communicator or collective: NCCL
//   does not fall back to its own choice, although its comments say so.
// - Collectives, algorithms and protocols are numbered from 0 in the order of the enumerations below.
// - The cost table is declared float** but is one array of floats, numAlgo rows of numProto. A cell of -1 is impossible
//   for this call. NCCL takes the cell with the lowest cost, so a cost of 0 chooses one. *nChannels is 0 on entry,
//   which means NCCL's own choice; another number is taken as the most channels.
// - The logger takes level, subsystem, file, line and a printf format.
#ifndef RINGTUNE_NCCL_TUNER_ABI_H
#define RINGTUNE_NCCL_TUNER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { kNcclSuccess = 0 };

enum { kNcclLogWarn = 2, kNcclLogInfo = 3 };

enum { kNcclSubsystemTuning = 0x40 };

enum { kNcclBroadcast, kNcclReduce, kNcclAllGather, kNcclReduceScatter, kNcclAllReduce, kNcclCollectives };

enum {
  kNcclTree,
  kNcclRing,
  kNcclCollnetDirect,
  kNcclCollnetChain,
  kNcclNvls,
  kNcclNvlsTree,
  kNcclPat,
  kNcclAlgorithms
};

enum { kNcclLl, kNcclLl128, kNcclSimple, kNcclProtocols };

typedef void (*NcclLogger)(int level, unsigned long subsystem, const char* file, int line, const char* format, ...);

typedef int (*NcclGetCollInfo)(void* context, int collective, size_t bytes, int pipe_ops, float** cost_table,
                               int algorithms, int protocols, int has_registered_buffers, int* channels);

typedef int (*NcclTunerEnd)(void* context);

typedef int (*NcclTunerInitV4)(size_t ranks, size_t nodes, NcclLogger log, void** context);

typedef int (*NcclTunerInitV5)(void** context, uint64_t communicator, size_t ranks, size_t nodes, NcclLogger log,
                               void* nvlink_domains, void* constants);

typedef int (*NcclGetChunkSize)(void* context, int collective, size_t bytes, int algorithm, int protocol, int channels,
                                size_t* chunk_bytes);

typedef struct {
  const char* name;
  NcclTunerInitV4 init;
  NcclGetCollInfo get_coll_info;
  NcclTunerEnd destroy;
} NcclTunerV4;

typedef struct {
  const char* name;
  NcclTunerInitV5 init;
  NcclGetCollInfo get_coll_info;
  NcclTunerEnd finalize;
} NcclTunerV5;

typedef struct {
  const char* name;
  NcclTunerInitV5 init;
  NcclGetCollInfo get_coll_info;
  NcclTunerEnd finalize;
  NcclGetChunkSize get_chunk_size;
} NcclTunerV6;

_Static_assert(sizeof(NcclTunerV4) == 4 * sizeof(void*), "v4 is four pointers");
_Static_assert(sizeof(NcclTunerV5) == 4 * sizeof(void*), "v5 is four pointers");
_Static_assert(sizeof(NcclTunerV6) == 5 * sizeof(void*), "v6 is five pointers");
_Static_assert(offsetof(NcclTunerV6, get_chunk_size) == 4 * sizeof(void*), "what v6 adds comes last");

#endif
