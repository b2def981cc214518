// SPDX-License-Identifier: Apache-2.0
// A call of a process group: `c10d::Work` over operations of the engine. A caller that waits does the engine's work
// itself, without the GIL.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "torch_backend/driving.h"
#include "torch_backend/surroundings.h"

namespace ringtune_torch {

inline constexpr double kCompareS =
    0.5;  // interval between two looks at the calls of other ranks, as Python's form has

class EngineWork final : public KeptWork {
 public:
  // `limit_s` is the time limit of this call, 0 for the engine's. The engine reads `inputs` and writes `outputs`.
  EngineWork(std::shared_ptr<Surroundings> group, std::string call, std::vector<at::Tensor> outputs,
             std::vector<at::Tensor> inputs, double limit_s)
      : group_(std::move(group)),
        call_(std::move(call)),
        outputs_(std::move(outputs)),
        inputs_(std::move(inputs)),
        limit_s_(limit_s) {}

  // Gives operations to the engine; false, and `fault()` says why, if it refuses the first one.
  bool submit(const std::vector<RingtuneRequest>& requests) {
    pending_ = static_cast<int>(requests.size());
    if (requests.empty()) {
      is_done_ = true;
      return true;
    }
    c10::intrusive_ptr<EngineWork>::unsafe_reclaim_from_nonowning(this).release();  // the engine's, until the last end
    for (const RingtuneRequest& request : requests) {
      group_->door->table->submit(group_->door, &request, &on_end, this);
      if (&request == &requests.front() && is_refused()) {
        give_up(static_cast<int>(requests.size()) - 1);
        return false;
      }
    }
    return true;
  }
  void set_number(uint64_t number) { number_ = number; }
  Fault fault() const { return Fault::parse(told_); }

  bool isCompleted() override { return is_done_ || is_over_; }
  bool isSuccess() const override { return is_over_ ? !fault_ : is_done_ && told_.empty(); }
  std::exception_ptr exception() const override {
    return is_over_ && fault_ ? std::make_exception_ptr(FaultError(*fault_)) : nullptr;
  }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override { wait(); }
  uint64_t getSequencenumber() const override { return number_; }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    finish(timeout.count() > 0 ? Seconds(timeout).count() : limit_s_);
    if (fault_) {
      group_->raise(*fault_);
    }
    return true;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    // A caller with the GIL may add callbacks of Python's, which may do anything. C++ adds none that calls the
    // engine: the engine's thread may run it.
    const bool is_for_python = PyGILState_Check() != 0;
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      if (future_ == nullptr) {
        future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
        is_first = true;
      }
      is_for_python_ |= is_for_python;
    }
    if (is_over_) {
      complete_future();
    } else if (is_first) {
      keep_future();
    }
    return future_;
  }

  void finish() override { finish(limit_s_); }

 private:
  static int is_done(void* context) { return static_cast<EngineWork*>(context)->is_done_ ? 1 : 0; }
  static void on_end(void* context, const char* error) { static_cast<EngineWork*>(context)->note_end(error); }

  bool is_refused() {
    const std::lock_guard lock(mutex_);
    return !told_.empty();
  }

  void finish(double limit_s) {
    if (!is_over_) {
      const Unlocked unlocked;
      pursue(limit_s);
    }
  }

  // The engine does not get the rest of the operations.
  void give_up(int count) {
    for (int left = 0; left < count; ++left) {
      note_end(nullptr);
    }
  }

  // On the engine's thread, or on that of a caller that waits.
  void note_end(const char* error) {
    c10::intrusive_ptr<EngineWork> own;
    bool is_for_keeper = false;
    bool is_told_here = false;
    {
      const std::lock_guard lock(mutex_);
      if (error != nullptr && told_.empty()) {
        told_ = error;
      }
      if (--pending_ > 0) {
        return;
      }
      own = c10::intrusive_ptr<EngineWork>::reclaim(this);
      is_told_here = is_kept_ && !is_for_python_ && told_.empty();
      is_for_keeper = is_kept_ && !is_told_here;
      is_done_ = true;
    }
    cv_.notify_all();
    if (is_told_here) {
      end(std::nullopt);
    } else if (is_for_keeper) {
      FutureKeeper::instance().post(std::move(own));
    }
  }

  void keep_future() {
    const Unlocked unlocked;
    const auto own = c10::intrusive_ptr<EngineWork>::unsafe_reclaim_from_nonowning(this);
    const bool is_of_pass = FutureKeeper::instance().attend_pass(own);
    bool is_kept = false;
    {
      const std::lock_guard lock(mutex_);
      is_kept = is_kept_ = !is_of_pass || !is_for_python_;
    }
    if (is_done_ && is_kept) {
      end_as_told();
    } else if (!is_of_pass) {
      group_->door->table->wait(group_->door, &is_done, this, 0);  // the batch goes now, as if somebody waited
    } else if (!is_kept && FutureKeeper::is_pass_ending()) {
      FutureKeeper::instance().post(own, kPassGrace);
    }
  }

  void pursue(double limit_s) {
    double waited_s = 0;
    while (!is_over_) {
      const double look_s = limit_s > 0 ? std::min(kCompareS, std::max(limit_s, 0.001)) : kCompareS;
      if (has_ended_within(Seconds(look_s))) {
        end_as_told();
        return;
      }
      waited_s += look_s;
      if (const std::optional<Fault> different = group_->difference()) {
        end(different);
        return;
      }
      if (limit_s > 0 && waited_s >= limit_s) {
        group_->raise_overdue(call_, number_, limit_s);
      }
    }
  }

  bool has_ended_within(Seconds limit) {
    return drive(group_->door, limit, mutex_, cv_, [this] { return is_done_ || is_over_; });
  }

  void end_as_told() {
    std::optional<Fault> fault;
    {
      const std::lock_guard lock(mutex_);
      if (!told_.empty()) {
        fault = Fault::parse(told_);
      }
    }
    end(fault);
  }

  // Somebody has seen the end: the engine's, or that of waiting for it in vain.
  void end(std::optional<Fault> fault) {
    if (fault) {
      fault = group_->explained(call_, *fault);
    }
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) {
        return;
      }
      fault_ = std::move(fault);
      is_over_ = true;
    }
    cv_.notify_all();
    KeptPointer forgotten;
    {
      const std::lock_guard lock(group_->book->mutex());
      forgotten = group_->book->end(number_);
    }
    complete_future();
  }

  void complete_future() {
    {
      const std::lock_guard lock(mutex_);
      if (future_ == nullptr || std::exchange(is_future_complete_, true)) {
        return;
      }
    }
    if (fault_) {
      future_->setError(std::make_exception_ptr(FaultError(*fault_)));
    } else {
      future_->markCompleted(outputs_);
    }
  }

  const std::shared_ptr<Surroundings> group_;
  const std::string call_;
  const std::vector<at::Tensor> outputs_;
  const std::vector<at::Tensor> inputs_;
  const double limit_s_;
  uint64_t number_ = 0;

  std::atomic<bool> is_done_{false};  // the engine's end
  std::atomic<bool> is_over_{false};  // seen by somebody
  // Guarded by mutex_, of the base. Once is_done_, told_ stays; once is_over_, fault_ does; once made, future_ does.
  int pending_ = 0;
  std::string told_;  // the engine's words, where it was an error
  std::optional<Fault> fault_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool is_for_python_ = false;
  bool is_kept_ = false;  // the engine's end completes the future, unless it is complete
  bool is_future_complete_ = false;
};

}  // namespace ringtune_torch
