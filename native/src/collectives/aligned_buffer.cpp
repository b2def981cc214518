// SPDX-License-Identifier: Apache-2.0
#include "collectives/aligned_buffer.h"

#include <new>
#include <string>

#include "transport/shm/atomics.h"

namespace ringtune {
namespace {

constexpr std::align_val_t kAlignment{kCacheLine};

}  // namespace

void AlignedBuffer::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

Status AlignedBuffer::allocate(size_t bytes) {
  memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow)));
  bytes_ = memory_ ? bytes : 0;
  return memory_ ? Status::ok_status()
                 : Status(StatusCode::kConfigError, "cannot allocate " + std::to_string(bytes) +
                                                        " bytes for a collective; free memory, or move less at once");
}

}  // namespace ringtune
