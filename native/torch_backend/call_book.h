// SPDX-License-Identifier: Apache-2.0
// Numbers and names of the calls of one process group, as `ringtune.torch_backend.call_book` keeps them: calls of equal
// text take some names in turn. Here the calls of both forms are in one book.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_backend/future_keeper.h"

namespace ringtune_torch {

// Names of one text: see the Python module.
inline constexpr size_t kNames = 8;

// The names of equal calls, and the numbers of the calls that have had them last.
struct CallText {
  std::string text;
  std::array<std::string, kNames> names;
  std::array<uint64_t, kNames> numbers{};
  size_t next = 0;
};

// A call that has not ended, or whose end was not seen yet.
struct OpenCall {
  std::shared_ptr<CallText> text;
  KeptPointer work;  // null for a call of Python's form, which keeps its own
};

class CallBook {
 public:
  // Guards all below, and the order in which the engine gets the calls. The GIL may be taken under it; whoever waits
  // for it must not hold the GIL.
  std::mutex& mutex() { return mutex_; }

  std::shared_ptr<CallText> find(const std::string& text) {
    std::shared_ptr<CallText>& known = texts_[text];
    if (known == nullptr) {
      known = std::make_shared<CallText>();
      known->text = text;
      for (size_t slot = 0; slot < kNames; ++slot) {
        known->names[slot] = text + " #" + std::to_string(era_) + "." + std::to_string(slot);
      }
    }
    return known;
  }

  // Number of the call under way that has the next name; 0 if it is free.
  uint64_t holder(const CallText& text) const {
    const uint64_t number = text.numbers[text.next];
    return open_.count(number) > 0 ? number : 0;
  }

  const std::string& next_name(const CallText& text) const { return text.names[text.next]; }

  // A call takes the next name; returns its number.
  uint64_t begin(const std::shared_ptr<CallText>& text, KeptPointer work) {
    text->numbers[text->next] = ++number_;
    text->next = (text->next + 1) % kNames;
    open_.emplace(number_, OpenCall{text, std::move(work)});
    return number_;
  }

  // Returns the call's work, which may only be let go of without the mutex, as may those below.
  KeptPointer end(uint64_t number) {
    const auto found = open_.find(number);
    if (found == open_.end()) {
      return {};
    }
    KeptPointer work = std::move(found->second.work);
    open_.erase(found);
    return work;
  }

  // Ends the oldest calls that are over without a waiting caller.
  std::vector<KeptPointer> end_completed() {
    std::vector<KeptPointer> ended;
    for (auto oldest = open_.begin();
         oldest != open_.end() && oldest->second.work && oldest->second.work->isCompleted();
         oldest = open_.erase(oldest)) {
      ended.push_back(std::move(oldest->second.work));
    }
    return ended;
  }

  KeptPointer work_of(uint64_t number) const {
    const auto found = open_.find(number);
    return found == open_.end() ? KeptPointer() : found->second.work;
  }

  const std::map<uint64_t, OpenCall>& open() const { return open_; }
  uint64_t number() const { return number_; }

  // The call of that number differs between ranks: names that may be in flight for ever are not used again.
  void differ(uint64_t number) {
    era_ = number;
    texts_.clear();
  }

  void close() { is_closed_ = true; }
  bool is_closed() const { return is_closed_; }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<CallText>> texts_;
  std::map<uint64_t, OpenCall> open_;
  uint64_t number_ = 0;
  uint64_t era_ = 0;
  bool is_closed_ = false;
};

}  // namespace ringtune_torch
