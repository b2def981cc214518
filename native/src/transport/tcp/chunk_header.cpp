// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/chunk_header.h"

#include "wire/codec.h"

namespace ringtune {

Bytes encode(const ChunkHeader& header) {
  Writer writer;
  writer.put(header.message);
  writer.put(header.bytes);
  writer.put(header.offset);
  return writer.release();
}

bool decode(ByteSpan bytes, ChunkHeader& header) {
  Reader reader(bytes);
  header.message = reader.get<uint32_t>();
  header.bytes = reader.get<uint32_t>();
  header.offset = reader.get<uint64_t>();
  return reader.is_at_end() && header.bytes > 0 && header.bytes <= kMaxStreamedChunkBytes;
}

}  // namespace ringtune
