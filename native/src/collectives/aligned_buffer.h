// SPDX-License-Identifier: Apache-2.0
// Uninitialised memory that begins at a cache line.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/status.h"

namespace ringtune {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;

  // Replaces the memory; fails where the system has none left.
  Status allocate(size_t bytes);

  std::byte* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte[], Free> memory_;
  size_t bytes_ = 0;
};

}  // namespace ringtune
