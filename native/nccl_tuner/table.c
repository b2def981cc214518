// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxFileBytes = kHeaderBytes + kMaxRules * kRuleBytes + kTrailerBytes };

static const unsigned char kMagic[8] = "RTNCCLT";  // and its zero byte

// A rule as it is in the file.
typedef struct {
  Rule rule;
  uint32_t least_nodes, most_nodes;
  uint32_t least_ranks, most_ranks;
  int collective;
} FileRule;

static uint32_t read_u32(const unsigned char* from) {
  return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t read_u64(const unsigned char* from) { return read_u32(from) | (uint64_t)read_u32(from + 4) << 32; }

// Two's complement without a conversion that the language leaves to the compiler.
static int read_i32(const unsigned char* from) {
  const uint32_t bits = read_u32(from);
  return bits <= INT32_MAX ? (int)bits : -(int)(UINT32_MAX - bits) - 1;
}

static uint32_t crc32_of(const unsigned char* data, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

static size_t rule_bytes(uint32_t version) { return version == 1 ? kRuleBytesV1 : kRuleBytes; }

static FileRule read_rule(const unsigned char* from, uint32_t version) {
  FileRule read = {
      .rule =
          {
              .least_bytes = read_u64(from),
              .most_bytes = read_u64(from + 8),
              .most_pipe_ops = UINT32_MAX,
              .registered = kAnyBuffers,
              .algorithm = read_i32(from + 36),
              .protocol = read_i32(from + 40),
              .channels = read_i32(from + 44),
          },
      .least_nodes = read_u32(from + 16),
      .most_nodes = read_u32(from + 20),
      .least_ranks = read_u32(from + 24),
      .most_ranks = read_u32(from + 28),
      .collective = read_i32(from + 32),
  };
  if (version > 1) {
    read.rule.registered = read_i32(from + 48);
    read.rule.least_pipe_ops = read_u32(from + 52);
    read.rule.most_pipe_ops = read_u32(from + 56);
  }
  return read;
}

static bool is_between(int value, int least, int most) { return least <= value && value <= most; }

static bool is_possible(const FileRule* read) {
  const Rule* rule = &read->rule;
  const bool has_ranges = rule->least_bytes <= rule->most_bytes && read->least_nodes <= read->most_nodes &&
                          read->least_ranks <= read->most_ranks && rule->least_pipe_ops <= rule->most_pipe_ops;
  const bool has_numbers = is_between(read->collective, 0, kNcclCollectives - 1) &&
                           is_between(rule->algorithm, kNcclDecides, kNcclAlgorithms - 1) &&
                           is_between(rule->protocol, kNcclDecides, kNcclProtocols - 1) &&
                           is_between(rule->channels, 0, kMaxChannels) && is_between(rule->registered, kAnyBuffers, 1);
  return has_ranges && has_numbers;
}

static bool holds_in(const FileRule* read, size_t ranks, size_t nodes) {
  return read->least_nodes <= nodes && nodes <= read->most_nodes && read->least_ranks <= ranks &&
         ranks <= read->most_ranks;
}

static const char* check_frame(const unsigned char* data, size_t size) {
  if (size < kHeaderBytes + kTrailerBytes || memcmp(data, kMagic, sizeof kMagic) != 0) return "it is no table";
  const uint32_t version = read_u32(data + 8);
  if (version < 1 || version > kTableVersion) return "it has another version";
  const uint32_t count = read_u32(data + 12);
  if (count > kMaxRules) return "it has too many rules";
  if (size != kHeaderBytes + (size_t)count * rule_bytes(version) + kTrailerBytes) return "it is too short or too long";
  if (read_u32(data + size - kTrailerBytes) != crc32_of(data, size - kTrailerBytes)) return "its checksum is wrong";
  return NULL;
}

const char* table_parse(const unsigned char* data, size_t size, size_t ranks, size_t nodes, Table* table) {
  memset(table, 0, sizeof *table);
  const char* problem = check_frame(data, size);
  if (problem != NULL) return problem;

  const uint32_t version = read_u32(data + 8);
  const size_t count = read_u32(data + 12), width = rule_bytes(version);
  const unsigned char* const rules = data + kHeaderBytes;
  for (size_t i = 0; i < count; ++i) {
    const FileRule read = read_rule(rules + i * width, version);
    if (!is_possible(&read)) return "one of its rules is not possible";
  }
  table->rules = malloc((count > 0 ? count : 1) * sizeof *table->rules);
  if (table->rules == NULL) return "there is no memory for it";

  size_t kept = 0;
  for (int collective = 0; collective < kNcclCollectives; ++collective) {
    table->first[collective] = kept;
    for (size_t i = 0; i < count; ++i) {
      const FileRule read = read_rule(rules + i * width, version);
      if (read.collective == collective && holds_in(&read, ranks, nodes)) table->rules[kept++] = read.rule;
    }
  }
  table->first[kNcclCollectives] = kept;
  return NULL;
}

const char* table_load(const char* path, size_t ranks, size_t nodes, Table* table) {
  memset(table, 0, sizeof *table);
  unsigned char* const data = malloc(kMaxFileBytes + 1);
  if (data == NULL) return "there is no memory to read it";
  FILE* const file = fopen(path, "rbe");
  if (file == NULL) {
    free(data);
    return "it cannot be opened";
  }
  const size_t size = fread(data, 1, kMaxFileBytes + 1, file);
  const char* problem = ferror(file) ? "it cannot be read" : NULL;
  fclose(file);
  if (problem == NULL) problem = table_parse(data, size, ranks, nodes, table);
  free(data);
  return problem;
}

static bool fits(const Rule* rule, const Question* question) {
  const uint32_t pipe_ops = question->pipe_ops > 0 ? (uint32_t)question->pipe_ops : 0;
  return rule->least_bytes <= question->bytes && question->bytes <= rule->most_bytes &&
         rule->least_pipe_ops <= pipe_ops && pipe_ops <= rule->most_pipe_ops &&
         (rule->registered == kAnyBuffers || rule->registered == (question->registered != 0));
}

const Rule* table_find(const Table* table, const Question* question) {
  if (!is_between(question->collective, 0, kNcclCollectives - 1)) return NULL;
  for (size_t i = table->first[question->collective]; i < table->first[question->collective + 1]; ++i) {
    if (fits(&table->rules[i], question)) return &table->rules[i];
  }
  return NULL;
}

void table_free(Table* table) {
  free(table->rules);
  memset(table, 0, sizeof *table);
}
