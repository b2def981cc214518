// SPDX-License-Identifier: Apache-2.0
// Memory of tensors that come again as they were. A name that is used once, as every operation without one gets, is
// worth no cache id, nor is one whose shape is another each time: ids are never taken back, and there are only so many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "wire/messages.h"

namespace ringtune {

class Recurrence {
 public:
  // True if the name came last with this signature, at this common place of all ranks or none; from now on it did.
  // Names that came longer ago than `kMemory` others are forgotten. Two that have one hash are taken for each other,
  // which costs an id at most.
  bool comes_again(const std::string& name, const Signature& signature, ArenaOffset place);

 private:
  // Number of ids: more names could not all be known anyway.
  static constexpr size_t kMemory = kMaxCacheId;

  // Hashes, by the hash of the name.
  std::unordered_map<uint64_t, uint64_t> recent_;  // at most kMemory, then it becomes `older_`
  std::unordered_map<uint64_t, uint64_t> older_;
};

}  // namespace ringtune
