// SPDX-License-Identifier: Apache-2.0
// The tuner plugin: does for each collective what the table says, and otherwise leaves NCCL alone.
//
// Two promises. It never fails a job: whatever is wrong with the table, the result is success and NCCL's own choice.
// And choosing costs a scan over a few rules: no allocation, no lock, no system call, no log.
//
// The table is read when a communicator is made, and belongs to it until its end: rules must not change between
// collectives, for ranks that choose differently hang. A table that was replaced holds for communicators made later.
#include <stdbool.h>
#include <stdlib.h>

#include "table.h"
#include "tuner_abi.h"

static const char kName[] = "ringtune";
static const char kVariable[] = "RINGTUNE_NCCL_TABLE";
static const float kChosen = 0.0f;  // no cost of NCCL's is lower

typedef struct {
  Table table;
  size_t nodes;
} Context;

static void say_what_was_read(NcclLogger log, const char* path, const Table* table, const char* problem) {
  if (log == NULL) return;
  if (path == NULL) {
    log(kNcclLogInfo, kNcclSubsystemTuning, __FILE__, __LINE__, "%s tuner: %s is not set; NCCL decides", kName,
        kVariable);
  } else if (problem != NULL) {
    log(kNcclLogWarn, kNcclSubsystemTuning, __FILE__, __LINE__,
        "%s tuner: the table %s is ignored, for %s; NCCL decides", kName, path, problem);
  } else {
    log(kNcclLogInfo, kNcclSubsystemTuning, __FILE__, __LINE__, "%s tuner: %zu rules for this communicator from %s",
        kName, table->first[kNcclCollectives], path);
  }
}

// Returns null where there is nothing to do.
static Context* open_context(size_t ranks, size_t nodes, NcclLogger log) {
  const char* path = getenv(kVariable);
  Table table = {0};
  const char* const problem = path == NULL ? NULL : table_load(path, ranks, nodes, &table);
  say_what_was_read(log, path, &table, problem);
  Context* const context = table.first[kNcclCollectives] > 0 ? malloc(sizeof *context) : NULL;
  if (context == NULL) {
    table_free(&table);
    return NULL;
  }
  context->table = table;
  context->nodes = nodes;
  return context;
}

static int init_v4(size_t ranks, size_t nodes, NcclLogger log, void** context) {
  *context = open_context(ranks, nodes, log);
  return kNcclSuccess;
}

static int init_v5(void** context, uint64_t communicator, size_t ranks, size_t nodes, NcclLogger log,
                   void* nvlink_domains, void* constants) {
  (void)communicator;
  (void)nvlink_domains;
  (void)constants;
  *context = open_context(ranks, nodes, log);
  return kNcclSuccess;
}

static bool allows(int wanted, int number) { return wanted == kNcclDecides || wanted == number; }

// Returns the cell that a rule allows and that NCCL thinks the cheapest, or null if none is possible for this call.
static float* find_cell(const Rule* rule, float* costs, int algorithms, int protocols) {
  float* best = NULL;
  for (int algorithm = 0; algorithm < algorithms; ++algorithm) {
    for (int protocol = 0; protocol < protocols; ++protocol) {
      if (!allows(rule->algorithm, algorithm) || !allows(rule->protocol, protocol)) continue;
      float* const cell = &costs[(ptrdiff_t)algorithm * protocols + protocol];
      if (*cell >= 0.0f && (best == NULL || *cell < *best)) best = cell;
    }
  }
  return best;
}

// Tells whether NCCL limits a tuner's number of channels to those that the communicator has. For CollNet, and for NVLS
// over several nodes, it takes the number as it is (scheduleCollTasksToPlan), and would run past them.
static bool is_channel_count_checked(int algorithm, size_t nodes) {
  if (algorithm == kNcclCollnetDirect || algorithm == kNcclCollnetChain) return false;
  return algorithm != kNcclNvls || nodes <= 1;
}

static int get_coll_info(void* context, int collective, size_t bytes, int pipe_ops, float** cost_table, int algorithms,
                         int protocols, int has_registered_buffers, int* channels) {
  if (context == NULL || cost_table == NULL || protocols <= 0) return kNcclSuccess;
  const Context* const own = context;
  const Question question = {collective, bytes, pipe_ops, has_registered_buffers};
  const Rule* const rule = table_find(&own->table, &question);
  if (rule == NULL) return kNcclSuccess;
  float* const costs = (float*)cost_table;
  float* const cell = find_cell(rule, costs, algorithms, protocols);
  if (cell == NULL) return kNcclSuccess;  // the channels were meant for what is not possible here
  if (rule->algorithm != kNcclDecides || rule->protocol != kNcclDecides) *cell = kChosen;
  const int algorithm = (int)((cell - costs) / protocols);
  if (rule->channels > 0 && channels != NULL && is_channel_count_checked(algorithm, own->nodes)) {
    *channels = rule->channels;
  }
  return kNcclSuccess;
}

static int end(void* context) {
  if (context != NULL) table_free(&((Context*)context)->table);
  free(context);
  return kNcclSuccess;
}

#define RINGTUNE_EXPORT __attribute__((visibility("default")))

RINGTUNE_EXPORT extern const NcclTunerV4 ncclTunerPlugin_v4;
RINGTUNE_EXPORT extern const NcclTunerV5 ncclTunerPlugin_v5;
RINGTUNE_EXPORT extern const NcclTunerV6 ncclTunerPlugin_v6;

const NcclTunerV4 ncclTunerPlugin_v4 = {kName, init_v4, get_coll_info, end};
const NcclTunerV5 ncclTunerPlugin_v5 = {kName, init_v5, get_coll_info, end};
const NcclTunerV6 ncclTunerPlugin_v6 = {kName, init_v5, get_coll_info, end, NULL};
