// SPDX-License-Identifier: Apache-2.0
// Table by size behind `allreduce_algorithm` = auto and `chunk_bytes` = auto: measured where the job runs, or compiled
// in. Inside a host only speed depends on it: every algorithm and chunk gives the same bits. Between hosts the order of
// a sum is the algorithm's (pairwise.h, ring_allreduce.cpp, hierarchical_allreduce.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "collectives/allreduce.h"
#include "transport/layout.h"

namespace ringtune {

struct TableRow {
  size_t max_bytes;  // kAnySize: no bound
  int algorithm;     // its number in the registry
  size_t chunk_bytes;
};

// Rows in order. `auto` takes the first that holds a message and is a choice of `auto` under the config in force; where
// the algorithm is given, the first of its rows.
class AlgorithmTable {
 public:
  // The compiled-in values.
  explicit AlgorithmTable(const Layout& layout);

  // Replaces the rows; fails, and keeps the old ones, where the new ones cannot serve every message of this layout.
  Status replace(std::vector<TableRow> rows, const Layout& layout);

  std::span<const TableRow> rows() const& { return rows_; }
  std::span<const TableRow> rows() const&& = delete;  // the rows would outlive their table
  int algorithm(const Layout& layout, bool is_hierarchical, size_t bytes) const;
  // The compiled-in chunk, where the algorithm has no row that holds the message.
  size_t chunk_bytes(int algorithm, size_t bytes) const;

 private:
  std::vector<TableRow> rows_;
  size_t default_chunk_bytes_;
};

struct AllreduceChoice {
  int algorithm;
  size_t chunk_bytes;
};

AllreduceChoice choose_allreduce(const EngineConfig& config, const AlgorithmTable& table, const Layout& layout,
                                 TensorMemory memory, size_t bytes);

// A message costs more than a round, by the times of the shortest allreduce: with one rank per host, recursive doubling
// against a round with a message to every rank.
bool has_costly_messages(const AlgorithmTable& table, const Layout& layout);

// For the other collectives: the config's chunk, or the compiled-in one, in whole cache lines.
size_t choose_chunk_bytes(const EngineConfig& config, const Layout& layout);

}  // namespace ringtune
