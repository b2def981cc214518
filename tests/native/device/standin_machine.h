// SPDX-License-Identifier: Apache-2.0
// The machine behind the stand-in for the CUDA driver: streams, memory, failures and counts.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "standin_cuda.h"

namespace standin {

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr int kFirstSticky = 700;
inline constexpr int kLastSticky = 719;
inline constexpr int kHasMemoryPools = 115;
inline constexpr int kNotPermitted = 800;
inline constexpr int kNotSupported = 801;
inline constexpr int kCaptureIsolation = 905;

inline thread_local std::vector<int> pushed;  // devices
inline thread_local bool is_refused = false;  // the last attempt to push a context, or to set the mode, has failed
inline thread_local int capture_mode = 0;
inline thread_local bool is_in_host_function = false;

// The state that an event stood for at one time.
struct Moment {
  std::atomic<bool> is_over{false};
};

struct Event {
  std::shared_ptr<Moment> moment;  // null: never recorded
};

class Machine;
struct Module;

class Stream {
 public:
  Stream(Machine& machine, int device, uint64_t seed) : machine_(machine), device_(device), random_(seed) {
    thread_ = std::thread([this] { run(); });
  }
  // Finishes the work that it has been given before.
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int device() const { return device_; }
  std::atomic<int> is_capturing{0};

  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    changed_.notify_all();
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return works_.empty() && !is_working_;
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return works_.empty() && !is_working_; });
  }

 private:
  void run();

  Machine& machine_;
  const int device_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  bool is_working_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

class Machine {
 public:
  static Machine& instance() {
    static Machine* const machine = new Machine();  // streams may outlive static objects
    return *machine;
  }

  void reset(const StandinSettings& settings) {
    std::map<int, std::unique_ptr<Stream>> ending;
    const std::lock_guard lock(mutex_);
    ending.swap(default_streams_);
    settings_ = settings;
    failures_.clear();
    lost_.store(kSuccess);
    violations_.store(0);
    are_kernels_spoiled_.store(false);
    calls_.store(0);
    pid_ = getpid();
  }

  // Begins each call: returns an error that the test asked for, or that all calls have by now.
  int begin(const char* function, bool needs_context = true) {
    calls_.fetch_add(1);
    if (getpid() != pid_) {
      std::abort();  // a forked child has no driver
    }
    if (is_in_host_function) {
      violations_.fetch_add(1);
      return kNotPermitted;
    }
    if (const int lost = lost_.load(); lost != kSuccess) {
      return lost;
    }
    const std::lock_guard lock(mutex_);
    if (const auto found = failures_.find(function); found != failures_.end() && --found->second.first == 0) {
      const int result = found->second.second;
      failures_.erase(found);
      lose_after(result);
      return result;
    }
    if (needs_context && pushed.empty()) {
      violations_.fetch_add(is_refused ? 0 : 1);  // a clean-up has no other way
      return kInvalidContext;
    }
    return kSuccess;
  }

  // A sticky error ends all work.
  void lose_after(int result) {
    if (result < kFirstSticky || result > kLastSticky) {
      return;
    }
    {
      const std::lock_guard over_lock(over_mutex_);
      lost_.store(result);
    }
    over_.notify_all();
  }

  void wait_for(const Moment& moment) {
    std::unique_lock lock(over_mutex_);
    over_.wait(lock, [&] { return moment.is_over.load() || is_lost(); });
  }
  void end(Moment& moment) {
    {
      const std::lock_guard lock(over_mutex_);
      moment.is_over.store(true);
    }
    over_.notify_all();
  }

  Stream* stream_of(void* handle) {
    const std::lock_guard lock(mutex_);
    if (handle != nullptr) {
      return static_cast<Stream*>(handle);
    }
    const int device = pushed.empty() ? 0 : pushed.back();
    std::unique_ptr<Stream>& stream = default_streams_[device];
    if (stream == nullptr) {
      stream = std::make_unique<Stream>(*this, device, ++seed_);
    }
    return stream.get();
  }
  Stream* make_stream(int device) {
    const std::lock_guard lock(mutex_);
    auto* const stream = new Stream(*this, device, ++seed_);
    alive_.insert(stream);
    return stream;
  }
  void destroy_stream(Stream* stream) {
    {
      const std::lock_guard lock(mutex_);
      alive_.erase(stream);
    }
    delete stream;
  }
  std::set<Stream*> alive_streams() {
    const std::lock_guard lock(mutex_);
    return alive_;
  }

  bool is_lost() const { return lost_.load() != kSuccess; }
  void add_violation() { violations_.fetch_add(1); }

  bool is_pinned(const void* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* first = static_cast<const std::byte*>(memory);
    auto next = pinned_.upper_bound(first);
    if (next == pinned_.begin()) return false;
    --next;
    return first + bytes <= next->first + next->second;
  }
  bool is_on_device(uint64_t memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto next = device_memory_.upper_bound(memory);
    if (next == device_memory_.begin()) return false;
    --next;
    return memory + bytes <= next->first + next->second;
  }

  std::mutex mutex_;  // guards the members below, but for atomics
  StandinSettings settings_{1, 1, 0, 1, 1, 1};
  uint64_t seed_ = 0;
  std::map<std::string, std::pair<int, int>> failures_;
  std::map<int, std::unique_ptr<Stream>> default_streams_;
  std::set<Stream*> alive_;
  std::map<const std::byte*, size_t> pinned_;
  std::set<const void*> registered_;
  std::map<uint64_t, size_t> device_memory_;
  std::set<uint64_t> pooled_;  // part of device_memory_: allocated by streams
  std::map<void*, std::shared_ptr<Module>> modules_;
  std::map<int, int> retained_;
  std::atomic<int> pools_{0};
  std::atomic<int> streams_{0};
  std::atomic<int> events_{0};
  std::atomic<int> pushed_{0};
  std::atomic<int> violations_{0};
  std::atomic<bool> are_kernels_spoiled_{false};
  std::atomic<uint64_t> calls_{0};
  std::atomic<int> lost_{kSuccess};
  pid_t pid_ = getpid();

 private:
  std::mutex over_mutex_;
  std::condition_variable over_;
};

inline Machine& machine() { return Machine::instance(); }

inline void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !works_.empty(); });
    if (works_.empty()) {
      return;
    }
    const std::function<void()> work = std::move(works_.front());
    works_.pop_front();
    is_working_ = true;
    lock.unlock();
    if (const uint32_t max_us = machine_.settings_.max_delay_us; max_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % (max_us + 1)));
    }
    if (!machine_.is_lost()) {
      work();
    }
    lock.lock();
    is_working_ = false;
    changed_.notify_all();
  }
}

}  // namespace standin
