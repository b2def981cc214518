// SPDX-License-Identifier: Apache-2.0
// Futures whose work may have no waiting caller: torch waits for a future itself, and drives no engine.
//
// In a backward pass, works are waited for when it ends, before DDP looks at its buckets. A future outside of a
// pass that may have callbacks of Python's is completed by a thread that the engine's end wakes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace ringtune_torch {

// A work, as the keeper uses it.
class KeptWork : public c10d::Work {
 public:
  // Waits for the end and completes the future; raises no fault of the work.
  virtual void finish() = 0;
};

using KeptPointer = c10::intrusive_ptr<KeptWork>;
using Clock = std::chrono::steady_clock;

// Callbacks at the end of a pass are left to themselves for so long.
inline constexpr std::chrono::seconds kPassGrace{1};

class FutureKeeper {
 public:
  // Never destroyed: the engine may have something to tell while the process exits.
  static FutureKeeper& instance() {
    static FutureKeeper* const keeper = new FutureKeeper;
    return *keeper;
  }

  // Lets the thread complete the future of a work that the engine has ended, or once that has waited for long enough.
  void post(KeptPointer work, Clock::duration grace = {}) {
    const std::lock_guard lock(mutex_);
    posted_.emplace(Clock::now() + grace, std::move(work));
    if (!std::exchange(has_thread_, true)) {
      std::thread([this] { run(); }).detach();
    }
    has_posted_.notify_one();
  }

  // Sees that a work is waited for at the end of this thread's backward pass; false outside of one. Callbacks may start
  // calls: at the end of the pass they do so in one order on all ranks.
  bool attend_pass(KeptPointer work) {
    const int graph_task = torch::autograd::get_current_graph_task_id();
    if (graph_task == -1) {
      return false;
    }
    auto pass = std::make_shared<Pass>();
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(passes_, [](const auto& entry) { return entry.second.expired(); });  // those that have failed
      std::weak_ptr<Pass>& known = passes_[graph_task];
      if (const std::shared_ptr<Pass> begun = known.lock()) {
        begun->push_back(std::move(work));
        return true;
      }
      pass->push_back(std::move(work));
      known = pass;
    }
    torch::autograd::Engine::get_default_engine().queue_callback([this, graph_task, pass] { end(graph_task, *pass); });
    return true;
  }

  // True once a pass is over but for the callbacks at its end: one of these may wait for a work before its turn.
  static bool is_pass_ending() {
    return torch::autograd::get_current_graph_task_id() != -1 && torch::autograd::get_current_node() == nullptr;
  }

 private:
  using Pass = std::vector<KeptPointer>;

  void end(int graph_task, Pass& pass) {
    Pass works;
    {
      const std::lock_guard lock(mutex_);
      passes_.erase(graph_task);
      works.swap(pass);
    }
    for (const KeptPointer& work : works) {
      work->finish();
    }
    for (const KeptPointer& work : works) {
      work->wait();  // raises the first fault
    }
  }

  void run() {
    while (true) {
      KeptPointer work;
      {
        std::unique_lock lock(mutex_);
        has_posted_.wait(lock, [this] { return !posted_.empty(); });
        const Clock::time_point due = posted_.begin()->first;
        if (Clock::now() < due) {
          has_posted_.wait_until(lock, due);
          continue;
        }
        work = std::move(posted_.begin()->second);
        posted_.erase(posted_.begin());
      }
      work->finish();
    }
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable has_posted_;
  std::multimap<Clock::time_point, KeptPointer> posted_;  // key: time from which the thread takes it
  std::unordered_map<int, std::weak_ptr<Pass>> passes_;
  bool has_thread_ = false;
};

}  // namespace ringtune_torch
