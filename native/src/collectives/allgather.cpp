// SPDX-License-Identifier: Apache-2.0
#include "collectives/allgather.h"

#include <vector>

#include "collectives/host_movement.h"
#include "collectives/link_movement.h"
#include "collectives/row_exchange.h"

namespace ringtune {

Status allgather(const AllgatherTask& task, Gathered& result) {
  std::vector<MutableByteSpan> parts;
  if (Status s = gather_numbers(task.context, {&task.rows, 1}, result.rows, task.chunk_bytes); !s.ok()) return s;
  if (Status s = allocate_rows(result, task.row_bytes, parts); !s.ok()) return s;
  const ByteSpan own(task.input, static_cast<size_t>(task.rows) * task.row_bytes);
  if (task.context.is_one_host()) {
    return gather_on_host(task.context.stage, own, parts, task.chunk_bytes);
  }
  if (task.is_hierarchical) {
    return hierarchical_allgather(task.context, own, parts, task.chunk_bytes);
  }
  if (task.context.layout.has_equal_hosts()) {
    return allgather_by_counterparts(task.context, own, parts, task.chunk_bytes);
  }
  copy_bytes(parts[static_cast<size_t>(task.context.rank())].data(), own.data(), own.size());
  return gather_over_links(task.context, parts);
}

}  // namespace ringtune
