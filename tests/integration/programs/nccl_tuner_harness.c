// SPDX-License-Identifier: Apache-2.0
// Drives the NCCL tuner plugin, compiled into this program, the way NCCL does; without NCCL, CUDA or a GPU.
//
//   harness mutate FILE SCRATCH COUNT   COUNT mutations of a table, through all three interfaces; prints how many were
//   read harness quiet FILE COUNT            COUNT questions; prints how often memory or files were asked for, and ns
//   for each
//
// Linked with --wrap, so that what the plugin allocates and opens is counted.
#define _POSIX_C_SOURCE 200809L  // setenv, clock_gettime

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "table.h"
#include "tuner_abi.h"

extern const NcclTunerV4 ncclTunerPlugin_v4;
extern const NcclTunerV5 ncclTunerPlugin_v5;
extern const NcclTunerV6 ncclTunerPlugin_v6;

enum { kBuffer = 1 << 20, kRanks = 8, kNodes = 2 };

static const float kCost = 5.0f;
static int requests;  // for memory and files
static int warnings;
static int infos;

void* __real_malloc(size_t size);
void* __wrap_malloc(size_t size) {
  ++requests;
  return __real_malloc(size);
}

void* __real_calloc(size_t count, size_t size);
void* __wrap_calloc(size_t count, size_t size) {
  ++requests;
  return __real_calloc(count, size);
}

FILE* __real_fopen(const char* path, const char* mode);
FILE* __wrap_fopen(const char* path, const char* mode) {
  ++requests;
  return __real_fopen(path, mode);
}

static void take_log(int level, unsigned long subsystem, const char* file, int line, const char* format, ...) {
  (void)subsystem, (void)file, (void)line;
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  warnings += level == kNcclLogWarn;
  infos += level == kNcclLogInfo;
}

static void fail(const char* what) {
  fprintf(stderr, "harness: %s\n", what);
  exit(1);
}

static float cost_before(int algorithm, int protocol) {
  return (algorithm + protocol) % 3 == 0 ? -1.0f : kCost + (float)(algorithm * 4 + protocol);
}

// Returns how many cells were chosen; a cell that was impossible may not be, and none may change otherwise.
static int count_chosen(float costs[kNcclAlgorithms][kNcclProtocols]) {
  int chosen = 0;
  for (int a = 0; a < kNcclAlgorithms; ++a) {
    for (int p = 0; p < kNcclProtocols; ++p) {
      const float before = cost_before(a, p);
      const int is_chosen = costs[a][p] == 0.0f && before > 0.0f;
      if (!is_chosen && costs[a][p] != before) fail("a cell that was not chosen has changed");
      chosen += is_chosen;
    }
  }
  return chosen;
}

// What NCCL relies on: success, at most one choice, a possible number of channels.
static void ask(NcclGetCollInfo get, void* context, int collective, size_t bytes) {
  const int pipe_ops = (int)(bytes % 5), registered = (int)(bytes % 2);
  float costs[kNcclAlgorithms][kNcclProtocols];
  for (int a = 0; a < kNcclAlgorithms; ++a) {
    for (int p = 0; p < kNcclProtocols; ++p) costs[a][p] = cost_before(a, p);
  }
  int channels = 0;
  if (get(context, collective, bytes, pipe_ops, (float**)costs, kNcclAlgorithms, kNcclProtocols, registered,
          &channels) != 0) {
    fail("a question was answered by an error");
  }
  if (count_chosen(costs) > 1 || channels < 0 || channels > kMaxChannels) fail("a choice that is none");
}

static void ask_all(NcclGetCollInfo get, void* context) {
  static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 1 << 20, SIZE_MAX};
  for (int collective = -1; collective <= kNcclCollectives + 9; ++collective) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) ask(get, context, collective, sizes[i]);
  }
}

static void run_all_versions(void) {
  void* context = NULL;
  if (ncclTunerPlugin_v4.init(kRanks, kNodes, take_log, &context) != 0) fail("v4 init");
  ask_all(ncclTunerPlugin_v4.get_coll_info, context);
  if (ncclTunerPlugin_v4.destroy(context) != 0) fail("v4 destroy");
  if (ncclTunerPlugin_v5.init(&context, 1, kRanks, kNodes, take_log, NULL, NULL) != 0) fail("v5 init");
  ask_all(ncclTunerPlugin_v5.get_coll_info, context);
  if (ncclTunerPlugin_v5.finalize(context) != 0) fail("v5 finalize");
  if (ncclTunerPlugin_v6.init(&context, 1, kRanks, kNodes, NULL, NULL, NULL) != 0) fail("v6 init");
  ask_all(ncclTunerPlugin_v6.get_coll_info, context);
  if (ncclTunerPlugin_v6.finalize(context) != 0) fail("v6 finalize");
}

static uint64_t next_random(uint64_t* state) {  // xorshift64
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static uint32_t crc32_of(const unsigned char* data, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// Changes some bytes and the length; half of the time the checksum is made right again, so that what is behind it is
// met.
static size_t mutate(unsigned char* data, size_t size, uint64_t* state) {
  if (next_random(state) % 4 == 0) size = next_random(state) % (size + 100);
  for (uint64_t changes = next_random(state) % 4; changes > 0 && size > 0; --changes) {
    data[next_random(state) % size] = (unsigned char)next_random(state);
  }
  if (next_random(state) % 2 == 0 && size >= kTrailerBytes) {
    const uint32_t crc = crc32_of(data, size - kTrailerBytes);
    for (int i = 0; i < kTrailerBytes; ++i) data[size - kTrailerBytes + (size_t)i] = (unsigned char)(crc >> 8 * i);
  }
  return size;
}

static size_t read_file(const char* path, unsigned char* data) {
  FILE* file = __real_fopen(path, "rb");
  if (file == NULL) fail("the table cannot be opened");
  const size_t size = fread(data, 1, kBuffer, file);
  fclose(file);
  return size;
}

static void run_mutations(const char* path, const char* scratch, int count) {
  unsigned char* const seed = __real_malloc(kBuffer);
  const size_t seed_size = read_file(path, seed);
  uint64_t state = 0x5EED;
  setenv("RINGTUNE_NCCL_TABLE", scratch, 1);
  for (int i = 0; i < count; ++i) {
    unsigned char* data = __real_malloc(seed_size + 100);
    memset(data, 0xA5, seed_size + 100);
    memcpy(data, seed, seed_size);
    const size_t size = mutate(data, seed_size, &state);
    // Parsed in place of its own size, so that a read behind its end is seen; and by way of a file.
    unsigned char* const exact = __real_malloc(size > 0 ? size : 1);
    memcpy(exact, data, size);
    Table table;
    table_parse(exact, size, kRanks, kNodes, &table);
    for (int collective = 0; collective < kNcclCollectives; ++collective) {
      const Question question = {collective, 4096, 1, collective % 2};
      table_find(&table, &question);
    }
    table_free(&table);
    free(exact);
    FILE* file = __real_fopen(scratch, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size) fail("the scratch file cannot be written");
    fclose(file);
    free(data);
    run_all_versions();
  }
  free(seed);
  printf("%d mutations, %d warnings, %d infos\n", count, warnings, infos);
}

static void run_quietly(const char* path, int count) {
  setenv("RINGTUNE_NCCL_TABLE", path, 1);
  void* context = NULL;
  if (ncclTunerPlugin_v6.init(&context, 1, kRanks, kNodes, take_log, NULL, NULL) != 0) fail("v6 init");
  if (context == NULL) fail("the table has no rule for this communicator");
  requests = 0;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < count; ++i) {
    ask(ncclTunerPlugin_v6.get_coll_info, context, i % kNcclCollectives, (size_t)i * 64);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  const int asked_for = requests;
  const double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
  ncclTunerPlugin_v6.finalize(context);
  printf("%d requests, %.0f ns each, %d logs\n", asked_for, ns / count, warnings + infos);
}

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], "mutate") == 0) {
    run_mutations(argv[2], argv[3], atoi(argv[4]));
  } else if (argc == 4 && strcmp(argv[1], "quiet") == 0) {
    run_quietly(argv[2], atoi(argv[3]));
  } else {
    fail("usage: mutate FILE SCRATCH COUNT, or quiet FILE COUNT");
  }
  return 0;
}
