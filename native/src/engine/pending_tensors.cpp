// SPDX-License-Identifier: Apache-2.0
#include "engine/pending_tensors.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ringtune {
namespace {

// A frame ends with the item that passes this: far below the limit of every transport, whatever the names.
constexpr size_t kFrameBytes = 64 << 10;

size_t encoded_bytes(const RequestItem& item) {
  return sizeof(RequestItem) + item.name.size() + item.signature.group.size() +
         item.signature.shape.size() * sizeof(int64_t);
}

// No value where a signature that was changed on its way is larger than memory.
std::optional<Submission> make_zeros(const std::string& name, const Signature& signature, std::vector<Bytes>& zeros) {
  Submission submission;
  submission.name = name;
  submission.signature = signature;
  try {
    zeros.emplace_back(submission.bytes());
  } catch (const std::exception&) {  // std::bad_alloc or std::length_error
    return std::nullopt;
  }
  submission.input = submission.output = zeros.back().data();
  return submission;
}

}  // namespace

std::vector<Bytes> encode_in_frames(Request request) {
  std::ranges::sort(request.cached);
  std::vector<RequestItem> items = std::exchange(request.items, {});
  std::vector<Bytes> frames;
  auto next = items.begin();
  do {
    request.items.clear();
    for (size_t bytes = 0; next != items.end() && bytes < kFrameBytes; ++next) {
      bytes += encoded_bytes(*next);
      request.items.push_back(std::move(*next));
    }
    frames.push_back(encode(request));
    request.cached.clear();
  } while (next != items.end());
  return frames;
}

void PendingTensors::add(Submission submission, bool is_cache_on, Request& request) {
  const CacheId id =
      is_cache_on ? cache_.find(submission.name, submission.signature, {&submission.arena_offset, 1}) : kNoCacheId;
  if (id == kNoCacheId) {
    request.items.push_back({submission.name, submission.signature, submission.arena_offset});
    std::string name = submission.name;
    by_name_.emplace(std::move(name), std::move(submission));
    return;
  }
  request.cached.push_back(id);
  if (by_id_.size() < id) {
    by_id_.resize(id);
  }
  by_id_[id - 1] = std::move(submission);
  ++by_id_count_;
}

std::optional<Submission> PendingTensors::take_by_id(CacheId id) {
  if (id == kNoCacheId || id > by_id_.size() || !by_id_[id - 1]) {
    return std::nullopt;
  }
  --by_id_count_;
  return std::exchange(by_id_[id - 1], std::nullopt);
}

std::optional<Submission> PendingTensors::take(const std::string& name) {
  if (auto found = by_name_.extract(name); !found.empty()) {
    return std::move(found.mapped());
  }
  return take_by_id(cache_.latest(name));
}

std::optional<Submission> PendingTensors::take(CacheId id, std::vector<Bytes>& zeros) {
  if (std::optional<Submission> submission = take_by_id(id)) {
    return submission;
  }
  const ResponseCache::Entry* entry = cache_.entry(id);
  if (entry == nullptr) {
    return std::nullopt;
  }
  if (std::optional<Submission> submission = take(entry->name)) {
    return submission;
  }
  return has_joined() ? make_zeros(entry->name, entry->signature, zeros) : std::nullopt;
}

std::optional<Submission> PendingTensors::take(const ResponseTensor& tensor, std::vector<Bytes>& zeros) {
  std::optional<Submission> submission = take(tensor.name);
  if (!submission && has_joined() && tensor.signature) {
    submission = make_zeros(tensor.name, *tensor.signature, zeros);
  }
  if (!submission) {
    return std::nullopt;
  }
  const bool is_placed =
      tensor.cache_id == kNoCacheId ||
      cache_.learn(tensor.cache_id, tensor.name, submission->signature, {&submission->arena_offset, 1});
  if (!is_placed && submission->handle != kNoHandle) {  // whoever waits for it hears of the job's end with the others
    by_name_.emplace(tensor.name, std::move(*submission));
  }
  return is_placed ? std::move(submission) : std::nullopt;
}

std::vector<Submission> PendingTensors::take_all() {
  std::vector<Submission> all;
  for (std::optional<Submission>& submission : by_id_) {
    if (submission) {
      all.push_back(std::move(*submission));
    }
  }
  for (auto& [name, submission] : by_name_) {
    all.push_back(std::move(submission));
  }
  by_id_.clear();
  by_id_count_ = 0;
  by_name_.clear();
  return all;
}

bool PendingTensors::wait_for_data() const {
  return by_id_count_ > 0 || (!by_name_.empty() && (by_name_.size() > 1 || !has_joined()));
}

std::string PendingTensors::a_name() const {
  const auto by_id = std::ranges::find_if(by_id_, [](const auto& submission) { return submission.has_value(); });
  if (by_id != by_id_.end()) {
    return (*by_id)->name;
  }
  const auto by_name = std::ranges::find_if(by_name_, [](const auto& item) { return item.first != kJoinName; });
  return by_name == by_name_.end() ? kJoinName : by_name->first;
}

std::string PendingTensors::describe(CacheId id) const {
  const ResponseCache::Entry* entry = cache_.entry(id);
  return entry == nullptr ? "cache id " + std::to_string(id) : "'" + entry->name + "'";
}

}  // namespace ringtune
