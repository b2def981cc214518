// SPDX-License-Identifier: Apache-2.0
// The table of the tuner plugin: rules that choose algorithm, protocol and channels by collective, size and job.
//
// A file, version 2, little-endian; `ringtune tune --target nccl` writes it:
//   header    16 bytes   "RTNCCLT\0", version (u32), number of rules (u32)
//   rule      60 bytes   least and most bytes (u64), nodes (u32), ranks (u32), all included;
//                        collective, algorithm, protocol (i32, NCCL's numbers, -1 for "NCCL decides");
//                        channels (i32, 0 for that);
//                        registered (i32: 1 for registered buffers alone, 0 for others alone, -1 for both);
//                        least and most operations per channel (u32), included
//   trailer    4 bytes   CRC-32 (the reflected polynomial 0xEDB88320, as in zlib) of all before it
// Version 1, still read, has rules of 48 bytes: they end with the channels and hold for all buffers and operations.
// The file is replaced by renaming another onto it. In its order, the first rule that fits holds.
#ifndef RINGTUNE_NCCL_TUNER_TABLE_H
#define RINGTUNE_NCCL_TUNER_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "tuner_abi.h"

enum {
  kTableVersion = 2,
  kHeaderBytes = 16,
  kRuleBytes = 60,
  kRuleBytesV1 = 48,
  kTrailerBytes = 4,
  kMaxRules = 4096,
  kMaxChannels = 64,
  kNcclDecides = -1,
  kAnyBuffers = -1
};

typedef struct {
  uint64_t least_bytes;
  uint64_t most_bytes;
  uint32_t least_pipe_ops;
  uint32_t most_pipe_ops;
  int registered;
  int algorithm;
  int protocol;
  int channels;
} Rule;

// The rules that can hold in one communicator, by collective, in the file's order. Never changes once it is made.
typedef struct {
  Rule* rules;
  size_t first[kNcclCollectives + 1];  // rules of collective c are first[c] up to, but not including, first[c + 1]
} Table;

// Reads `path` and keeps the rules for a communicator of `ranks` on `nodes`. Returns null, or why there is no table: a
// constant text. `table` has no rules then.
const char* table_load(const char* path, size_t ranks, size_t nodes, Table* table);

// Parses a table's bytes; otherwise like table_load.
const char* table_parse(const unsigned char* data, size_t size, size_t ranks, size_t nodes, Table* table);

// One collective, as NCCL asks about it.
typedef struct {
  int collective;
  size_t bytes;    // summed over the operations of a group that NCCL decides about together
  int pipe_ops;    // NCCL's estimate of the operations on each channel
  int registered;  // 1 where the buffers are registered with NCCL, else 0
} Question;

// Returns the rule for a collective, or null. Takes no lock, allocates no memory, calls no function.
const Rule* table_find(const Table* table, const Question* question);

void table_free(Table* table);

#endif
