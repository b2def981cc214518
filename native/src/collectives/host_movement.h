// SPDX-License-Identifier: Apache-2.0
// Bytes between the ranks of one host, through their stages. Every rank of the host calls with the same sizes; ranks
// are local ranks.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/chunks.h"
#include "transport/shm/stage.h"

namespace ringtune {

// The target may be the source.
inline void copy_bytes(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes > 0 && target != source) {
    std::memcpy(target, source, bytes);
  }
}

// Every rank's bytes to every rank: `parts[r]` takes the bytes of rank r, this rank's own included.
Status gather_on_host(Stage& stage, ByteSpan own, std::span<const MutableByteSpan> parts, size_t chunk_bytes);

// Every rank shows its bytes, and reads those of `from` unless `in` is empty. All ranks show equally many.
Status read_from_peer(Stage& stage, ByteSpan own, int from, MutableByteSpan in, size_t chunk_bytes);

// The root's bytes over everybody's. `fetch(range)` is called on the root before it passes a range on, and returns a
// Status: where the bytes come from elsewhere, it gets them.
template <typename Fetch>
Status broadcast_on_host(Stage& stage, int root, MutableByteSpan data, size_t chunk_bytes, Fetch fetch) {
  const uint64_t chunks = chunk_count(data.size(), chunk_bytes);
  if (Status s = stage.begin(chunk_bytes, chunks); !s.ok()) return s;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const ByteRange range = chunk_range(data.size(), chunk_bytes, chunk);
    if (stage.local_rank() == root) {
      if (Status s = fetch(range); !s.ok()) return s;
      if (stage.local_size() > 1) {
        if (Status s = stage.reserve(chunk); !s.ok()) return s;
        copy_bytes(stage.slot(root, chunk), data.data() + range.offset, range.bytes);
      }
      stage.publish(Phase::kStaged, chunk);
    } else {
      if (Status s = stage.wait_for(root, Phase::kStaged, chunk); !s.ok()) return s;
      copy_bytes(data.data() + range.offset, stage.slot(root, chunk), range.bytes);
    }
    stage.publish(Phase::kDrained, chunk);
  }
  stage.end();
  return Status::ok_status();
}

}  // namespace ringtune
