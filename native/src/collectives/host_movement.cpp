// SPDX-License-Identifier: Apache-2.0
#include "collectives/host_movement.h"

#include <algorithm>

#include "collectives/staged_pipeline.h"

namespace ringtune {

Status gather_on_host(Stage& stage, ByteSpan own, std::span<const MutableByteSpan> parts, size_t chunk_bytes) {
  size_t largest = 0;
  for (const MutableByteSpan& part : parts) {
    largest = std::max(largest, part.size());
  }
  const auto fill = [&](uint64_t chunk, std::byte* slot) {
    const ByteRange range = chunk_range(own.size(), chunk_bytes, chunk);
    copy_bytes(slot, own.data() + range.offset, range.bytes);
  };
  const auto take = [&](uint64_t chunk) {
    for (int step = 0; step < stage.local_size(); ++step) {
      const int source = (stage.local_rank() + step) % stage.local_size();
      const MutableByteSpan& part = parts[static_cast<size_t>(source)];
      const ByteRange range = chunk_range(part.size(), chunk_bytes, chunk);
      if (step == 0) {
        copy_bytes(part.data() + range.offset, own.data() + range.offset, range.bytes);
      } else if (range.bytes > 0) {
        if (Status s = stage.wait_for(source, Phase::kStaged, chunk); !s.ok()) return s;
        copy_bytes(part.data() + range.offset, stage.slot(source, chunk), range.bytes);
      }
    }
    return Status::ok_status();
  };
  return run_staged(stage, chunk_bytes, chunk_count(largest, chunk_bytes), fill, take);
}

Status read_from_peer(Stage& stage, ByteSpan own, int from, MutableByteSpan in, size_t chunk_bytes) {
  const auto fill = [&](uint64_t chunk, std::byte* slot) {
    const ByteRange range = chunk_range(own.size(), chunk_bytes, chunk);
    copy_bytes(slot, own.data() + range.offset, range.bytes);
  };
  const auto take = [&](uint64_t chunk) {
    const ByteRange range = chunk_range(in.size(), chunk_bytes, chunk);
    if (range.bytes > 0) {
      if (Status s = stage.wait_for(from, Phase::kStaged, chunk); !s.ok()) return s;
      copy_bytes(in.data() + range.offset, stage.slot(from, chunk), range.bytes);
    }
    return Status::ok_status();
  };
  return run_staged(stage, chunk_bytes, chunk_count(own.size(), chunk_bytes), fill, take);
}

}  // namespace ringtune
