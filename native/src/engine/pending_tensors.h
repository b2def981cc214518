// SPDX-License-Identifier: Apache-2.0
// Tensors that a rank has submitted and not got back, and the ids by which it and the coordinator name tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "engine/response_cache.h"
#include "engine/submissions/submission.h"
#include "wire/messages.h"

namespace ringtune {

// The request in frames that fit everywhere. Ids go first: an id after a join would be refused.
std::vector<Bytes> encode_in_frames(Request request);

class PendingTensors {
 public:
  // Keeps the submission and adds it to the request: by its id, if there is one and it may be used.
  void add(Submission submission, bool is_cache_on, Request& request);

  // The submission that a response's tensor stands for; of a new id, the pair is learned. Where this rank has joined
  // and has none, one whose data are zeros that live in `zeros`. No value if it makes no sense.
  std::optional<Submission> take(CacheId id, std::vector<Bytes>& zeros);
  std::optional<Submission> take(const ResponseTensor& tensor, std::vector<Bytes>& zeros);
  // Takes by name alone; no value if there is none.
  std::optional<Submission> take(const std::string& name);
  std::vector<Submission> take_all();

  bool empty() const { return by_id_count_ == 0 && by_name_.empty(); }
  // True if any but a join is there: a rank that has joined waits for as long as others have data.
  bool wait_for_data() const;
  // Name of one of them, for messages; there must be one.
  std::string a_name() const;
  // For messages: the name of an id, or "cache id 7" where it has none.
  std::string describe(CacheId id) const;

 private:
  std::optional<Submission> take_by_id(CacheId id);
  bool has_joined() const { return by_name_.contains(kJoinName); }

  ResponseCache cache_;
  // The two ways in which they were asked for. By id: index id - 1.
  std::vector<std::optional<Submission>> by_id_;
  size_t by_id_count_ = 0;
  std::unordered_map<std::string, Submission> by_name_;
};

}  // namespace ringtune
