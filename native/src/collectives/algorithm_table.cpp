// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithm_table.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "collectives/message_sizes.h"

namespace ringtune {
namespace {

// Chunk of collectives that only move data: they overlap sending one chunk with receiving the one before.
constexpr size_t kChunkBytes = 128 * kKiB;

size_t default_chunk_bytes(const Layout& layout, size_t bytes_on_one_host) {
  return layout.host_count() == 1 ? bytes_on_one_host : kChunkBytesBetweenHosts;
}

size_t configured_chunk_bytes(const EngineConfig& config, size_t auto_bytes) {
  return config.chunk_bytes == 0 ? auto_bytes : config.chunk_bytes / kCacheLine * kCacheLine;
}

// Two ranks each read the other's post, which bounds a direct allreduce between them.
size_t max_bytes(const AllreduceAlgorithm& algorithm, const Layout& layout) {
  return algorithm.run == &direct_allreduce && layout.world_size() == 2 ? kPostBytes : algorithm.auto_max_bytes;
}

Status check_row(const TableRow& row, const Layout& layout) {
  const auto algorithms = allreduce_algorithms();
  const bool is_known = row.algorithm >= 0 && static_cast<size_t>(row.algorithm) < algorithms.size();
  if (!is_known || !can_run(algorithms[static_cast<size_t>(row.algorithm)], layout, TensorMemory::kAny)) {
    return {StatusCode::kConfigError, "the algorithm table names algorithm number " + std::to_string(row.algorithm) +
                                          ", which cannot run with " + std::to_string(layout.host_count()) +
                                          " host(s)"};
  }
  if (row.chunk_bytes < kMinChunkBytes || row.chunk_bytes > kMaxChunkBytes || row.chunk_bytes % kCacheLine != 0) {
    return {StatusCode::kConfigError, "the algorithm table has chunks of " + std::to_string(row.chunk_bytes) +
                                          " bytes; allowed are whole cache lines of " + std::to_string(kCacheLine) +
                                          " bytes, 16 KiB ... 4 MiB"};
  }
  return Status::ok_status();
}

std::vector<TableRow>::const_iterator find_row(const std::vector<TableRow>& rows, const Layout& layout,
                                               bool is_hierarchical, size_t bytes) {
  return std::ranges::find_if(rows, [&](const TableRow& row) {
    const AllreduceAlgorithm& algorithm = allreduce_algorithms()[static_cast<size_t>(row.algorithm)];
    return bytes <= row.max_bytes && is_choice_of_auto(algorithm, layout, is_hierarchical);
  });
}

}  // namespace

AlgorithmTable::AlgorithmTable(const Layout& layout)
    : default_chunk_bytes_(ringtune::default_chunk_bytes(layout, kAllreduceChunkBytes)) {
  const auto algorithms = allreduce_algorithms();
  for (size_t i = 0; i < algorithms.size(); ++i) {
    if (can_run(algorithms[i], layout, TensorMemory::kAny) && algorithms[i].auto_max_bytes > 0) {
      rows_.push_back({max_bytes(algorithms[i], layout), static_cast<int>(i), default_chunk_bytes_});
    }
  }
}

Status AlgorithmTable::replace(std::vector<TableRow> rows, const Layout& layout) {
  for (const TableRow& row : rows) {
    if (Status s = check_row(row, layout); !s.ok()) return s;
  }
  for (const bool is_hierarchical : {false, true}) {
    if (find_row(rows, layout, is_hierarchical, kAnySize) == rows.end()) {
      return {StatusCode::kConfigError, "no row of the algorithm table holds messages of any size" +
                                            std::string(layout.host_count() == 1 ? ""
                                                        : is_hierarchical        ? " with hierarchical_allreduce on"
                                                                                 : " with hierarchical_allreduce off")};
    }
  }
  rows_ = std::move(rows);
  return Status::ok_status();
}

int AlgorithmTable::algorithm(const Layout& layout, bool is_hierarchical, size_t bytes) const {
  return find_row(rows_, layout, is_hierarchical, bytes)->algorithm;  // there is one for any size
}

size_t AlgorithmTable::chunk_bytes(int algorithm, size_t bytes) const {
  const auto holds = [=](const TableRow& row) { return row.algorithm == algorithm && bytes <= row.max_bytes; };
  const auto row = std::find_if(rows_.begin(), rows_.end(), holds);
  return row == rows_.end() ? default_chunk_bytes_ : row->chunk_bytes;
}

AllreduceChoice choose_allreduce(const EngineConfig& config, const AlgorithmTable& table, const Layout& layout,
                                 TensorMemory memory, size_t bytes) {
  std::optional<int> algorithm = configured_algorithm(config, layout);
  if (!algorithm) {
    algorithm = memory == TensorMemory::kRegistered && layout.host_count() == 1
                    ? registered_algorithm(layout, bytes)
                    : table.algorithm(layout, config.hierarchical_allreduce, bytes);
  }
  return {*algorithm, configured_chunk_bytes(config, table.chunk_bytes(*algorithm, bytes))};
}

bool has_costly_messages(const AlgorithmTable& table, const Layout& layout) {
  return layout.host_count() > 1 && layout.host_count() == layout.world_size() &&
         allreduce_algorithms()[static_cast<size_t>(table.algorithm(layout, false, 1))].run ==
             &recursive_doubling_allreduce;
}

size_t choose_chunk_bytes(const EngineConfig& config, const Layout& layout) {
  return configured_chunk_bytes(config, default_chunk_bytes(layout, kChunkBytes));
}

}  // namespace ringtune
