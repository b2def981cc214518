// SPDX-License-Identifier: Apache-2.0
#include "collectives/row_exchange.h"

#include <numeric>

#include "collectives/host_movement.h"
#include "collectives/link_movement.h"

namespace ringtune {

Status gather_numbers(const CollectiveContext& context, std::span<const int64_t> own, std::vector<int64_t>& all,
                      size_t chunk_bytes) {
  all.resize(own.size() * static_cast<size_t>(context.world_size()));
  const MutableByteSpan bytes = std::as_writable_bytes(std::span(all));
  if (!context.is_one_host()) {
    return gather_few_over_links(context, std::as_bytes(own), bytes);
  }
  std::vector<MutableByteSpan> parts;
  for (size_t offset = 0; offset < bytes.size(); offset += own.size_bytes()) {
    parts.push_back(bytes.subspan(offset, own.size_bytes()));
  }
  return gather_on_host(context.stage, std::as_bytes(own), parts, chunk_bytes);
}

Status allocate_rows(Gathered& result, size_t row_bytes, std::vector<MutableByteSpan>& parts) {
  const int64_t rows = std::accumulate(result.rows.begin(), result.rows.end(), int64_t{0});
  if (Status s = result.allocate(static_cast<size_t>(rows) * row_bytes); !s.ok()) return s;
  size_t offset = 0;
  for (const int64_t of_rank : result.rows) {
    const size_t bytes = static_cast<size_t>(of_rank) * row_bytes;
    parts.emplace_back(result.data() + offset, bytes);
    offset += bytes;
  }
  return Status::ok_status();
}

}  // namespace ringtune
