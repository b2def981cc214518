// SPDX-License-Identifier: Apache-2.0
// XLA calls that hand arrays to the engine as soon as they are computed, so that communication overlaps with the rest
// of the compiled step: see docs/howto/jax.md. Compiled by `python -m ringtune.jax_op`.
//
// On CPUs a call returns a future at once; no thread of XLA's waits. The engine tells the end of an operation on its
// communication thread. XLA goes on with the step on the thread that fulfils the future, and that step may need the
// engine: one thread of this library takes the news on.
//
// On GPUs a call waits until the ranks have agreed and the results are enqueued; XLA's stream waits for them, no thread
// does. XLA enqueues a function's work in the order of the program, so that calls come in that order, too.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/submission_abi.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// The ways to the engines of the process sets that compiled functions name, by numbers that Python gives. A compiled
// function holds the number, so that one that was compiled in one world goes on in the next.
class Doors {
 public:
  struct Entry {
    RingtuneDoor* door = nullptr;
    std::string complaint;  // why there is no door
  };

  // Never destroyed: functions may run while the process exits.
  static Doors& instance() {
    static Doors* const doors = new Doors;
    return *doors;
  }

  void put(uint32_t number, Entry entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.resize(std::max<size_t>(entries_.size(), number + 1));
    entries_[number] = std::move(entry);
  }

  Entry find(int32_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto index = static_cast<size_t>(number);
    return index < entries_.size() ? entries_[index] : Entry{nullptr, "its process set is none of this process"};
  }

 private:
  std::mutex mutex_;  // guards entries_
  std::vector<Entry> entries_;
};

// One execution of a collective of some arrays.
class Call {
 public:
  explicit Call(size_t arrays) : remaining_(arrays + 1) {}
  virtual ~Call() = default;

  // The engine is done with an array; `error` is null, or says why it failed.
  void end_array(const char* error) {
    if (error != nullptr) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (error_.empty()) {
        error_ = error;
      }
    }
    if (remaining_.fetch_sub(1) == 1) {
      end(false);
    }
  }
  // All arrays were submitted. They may have ended already, as those do that were refused.
  void end_submission() {
    if (remaining_.fetch_sub(1) == 1) {
      end(true);
    }
  }

 protected:
  // Called once, as the last thing: in the call of XLA's itself, or on a thread of the engine's.
  virtual void end(bool is_in_call) = 0;
  // Once it has ended: the first error, or an empty text.
  std::string& error() { return error_; }

 private:
  std::atomic<size_t> remaining_;  // arrays that the engine is not done with, and the submission
  std::mutex mutex_;               // guards error_
  std::string error_;
};

void fulfil(ffi::Promise& promise, const std::string& error) {
  if (error.empty()) {
    promise.SetAvailable();
  } else {
    promise.SetError(ffi::Error::Internal(error));
  }
}

// The thread that passes the engine's results on to XLA.
class Messenger {
 public:
  // Never destroyed: the engine may have something to tell while the process exits.
  static Messenger& instance() {
    static Messenger* const messenger = new Messenger;
    return *messenger;
  }

  void post(ffi::Promise promise, std::string error) {
    bool is_first = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_first = news_.empty();
      news_.emplace_back(std::move(promise), std::move(error));
    }
    if (is_first) {
      has_news_.notify_one();
    }
  }

 private:
  using News = std::vector<std::pair<ffi::Promise, std::string>>;

  Messenger() {
    std::thread([this] { run(); }).detach();
  }

  [[noreturn]] void run() {
    while (true) {
      News news;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        has_news_.wait(lock, [this] { return !news_.empty(); });
        news.swap(news_);
      }
      for (auto& [promise, error] : news) {
        fulfil(promise, error);
      }
    }
  }

  std::mutex mutex_;  // guards news_
  std::condition_variable has_news_;
  News news_;
};

// XLA keeps the buffers until the future is fulfilled.
class FutureCall : public Call {
 public:
  using Call::Call;

  ffi::Future future() { return ffi::Future(promise_); }

 private:
  void end(bool is_in_call) override {
    const std::unique_ptr<FutureCall> ended(this);
    if (is_in_call) {
      fulfil(promise_, error());
    } else {
      Messenger::instance().post(std::move(promise_), std::move(error()));
    }
  }

  ffi::Promise promise_;
};

// The thread of XLA's waits.
class WaitingCall : public Call {
 public:
  using Call::Call;

  // Returns the first error, or an empty text, once all results are enqueued.
  std::string wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    has_ended_.wait(lock, [this] { return is_over_; });
    return error();
  }

 private:
  void end(bool) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    has_ended_.notify_one();  // under the lock: the call may be gone once it is free
  }

  std::mutex mutex_;  // guards is_over_
  std::condition_variable has_ended_;
  bool is_over_ = false;
};

// Callback of the engine, for each array; `context` is the call.
void on_end(void* context, const char* error) { static_cast<Call*>(context)->end_array(error); }

// The lines of a text that has as many as there are arrays.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A collective apart from its arrays: the attributes of a call. `ringtune.jax.calls` makes them.
struct Collective {
  int32_t kind;  // a RingtuneCollective
  int32_t door;
  std::string_view names;  // one a line
  std::string_view group;  // name of the group that several arrays make
  ffi::Span<const int32_t> dtypes;
  int32_t reduction;
  double prescale;
  double postscale;
  int32_t is_gradient;
  int32_t root_rank;
  int32_t ranks;
  ffi::Span<const int64_t> rows_for;  // `ranks` numbers for each array, or none at all
  ffi::Span<const int64_t> rows_of;
};

// The numbers of one array among those of all; null where there are none.
const int64_t* part_of(const ffi::Span<const int64_t>& numbers, size_t array, int32_t ranks) {
  return numbers.size() == 0 ? nullptr : numbers.begin() + array * static_cast<size_t>(ranks);
}

bool are_rows_of_all(const ffi::Span<const int64_t>& numbers, size_t arrays, int32_t ranks) {
  return numbers.size() == 0 || numbers.size() == arrays * static_cast<size_t>(ranks);
}

bool is_complete(const Collective& collective, size_t names, size_t arrays, size_t results) {
  return arrays > 0 && results == arrays && names == arrays && collective.dtypes.size() == arrays &&
         are_rows_of_all(collective.rows_for, arrays, collective.ranks) &&
         are_rows_of_all(collective.rows_of, arrays, collective.ranks);
}

// The request for one of the arrays, without its name and group.
RingtuneRequest request_of(const Collective& collective, size_t array, const ffi::AnyBuffer& input,
                           const ffi::AnyBuffer& output) {
  const auto shape = input.dimensions();
  RingtuneRequest request{};
  request.collective = static_cast<uint32_t>(collective.kind);
  request.dtype = static_cast<uint32_t>(collective.dtypes.begin()[array]);
  request.input = input.untyped_data();
  request.output = output.untyped_data();
  request.output_bytes = output.size_bytes();
  request.shape = shape.begin();
  request.dimensions = static_cast<uint32_t>(shape.size());
  request.reduction = static_cast<uint32_t>(collective.reduction);
  request.prescale = collective.prescale;
  request.postscale = collective.postscale;
  request.is_gradient = static_cast<uint32_t>(collective.is_gradient);
  request.root_rank = static_cast<uint32_t>(collective.root_rank);
  request.ranks = static_cast<uint32_t>(collective.ranks);
  request.rows_for = part_of(collective.rows_for, array, collective.ranks);
  request.rows_of = part_of(collective.rows_of, array, collective.ranks);
  return request;
}

// Buffers of a GPU, and the stream on which they are ready.
struct Place {
  bool is_on_gpu = false;
  int32_t gpu = 0;
  void* stream = nullptr;
};

constexpr const char* kIncomplete = "a collective needs a name, a dtype, a result and the ranks' rows for each array";

// Hands all arrays to the engine at once, as one group.
void submit_all(ffi::RemainingArgs inputs, ffi::RemainingRets outputs, const Collective& collective,
                const std::vector<std::string>& names, const Place& place, Call& call) {
  const size_t arrays = inputs.size();
  const Doors::Entry entry = Doors::instance().find(collective.door);
  const std::string group(arrays > 1 ? collective.group : "");
  for (size_t array = 0; array < arrays; ++array) {
    if (entry.door == nullptr) {
      call.end_array(("ConfigError: " + entry.complaint).c_str());
      continue;
    }
    const ffi::AnyBuffer input = *inputs.get<ffi::AnyBuffer>(array);
    ffi::Result<ffi::AnyBuffer> output = *outputs.get<ffi::AnyBuffer>(array);
    RingtuneRequest request = request_of(collective, array, input, *output);
    request.name = names[array].c_str();
    request.group = group.c_str();
    request.group_size = arrays > 1 ? static_cast<uint32_t>(arrays) : 0U;
    request.is_on_gpu = place.is_on_gpu ? 1U : 0U;
    request.gpu = place.gpu;
    request.stream = reinterpret_cast<uint64_t>(place.stream);
    entry.door->table->submit(entry.door, &request, &on_end, &call);
  }
  call.end_submission();
}

ffi::Future submit(ffi::RemainingArgs inputs, ffi::RemainingRets outputs, Collective collective) {
  const std::vector<std::string> names = lines_of(collective.names);
  if (!is_complete(collective, names.size(), inputs.size(), outputs.size())) {
    ffi::Promise failed;
    failed.SetError(ffi::Error::InvalidArgument(kIncomplete));
    return ffi::Future(failed);
  }
  auto* const call = new FutureCall(inputs.size());  // deletes itself at its end
  ffi::Future future = call->future();
  submit_all(inputs, outputs, collective, names, {}, *call);
  return future;
}

ffi::Error submit_on_stream(void* stream, int32_t gpu, ffi::RemainingArgs inputs, ffi::RemainingRets outputs,
                            Collective collective) {
  const std::vector<std::string> names = lines_of(collective.names);
  if (!is_complete(collective, names.size(), inputs.size(), outputs.size())) {
    return ffi::Error::InvalidArgument(kIncomplete);
  }
  WaitingCall call(inputs.size());
  submit_all(inputs, outputs, collective, names, {true, gpu, stream}, call);
  const std::string error = call.wait();
  return error.empty() ? ffi::Error::Success() : ffi::Error::Internal(error);
}

ffi::Error mark_step(ffi::RemainingArgs, int32_t door) {
  if (RingtuneDoor* const open = Doors::instance().find(door).door; open != nullptr) {
    open->table->mark_step(open);
  }
  return ffi::Error::Success();
}

ffi::Error nothing(ffi::RemainingRets) { return ffi::Error::Success(); }

}  // namespace

XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Collective, ffi::StructMember<int32_t>("kind"),
                                      ffi::StructMember<int32_t>("door"), ffi::StructMember<std::string_view>("names"),
                                      ffi::StructMember<std::string_view>("group"),
                                      ffi::StructMember<ffi::Span<const int32_t>>("dtypes"),
                                      ffi::StructMember<int32_t>("reduction"), ffi::StructMember<double>("prescale"),
                                      ffi::StructMember<double>("postscale"), ffi::StructMember<int32_t>("is_gradient"),
                                      ffi::StructMember<int32_t>("root_rank"), ffi::StructMember<int32_t>("ranks"),
                                      ffi::StructMember<ffi::Span<const int64_t>>("rows_for"),
                                      ffi::StructMember<ffi::Span<const int64_t>>("rows_of"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ringtune_jax_collective, submit,
                              ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs<Collective>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(ringtune_jax_collective_on_stream, submit_on_stream,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<Collective>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(ringtune_jax_mark_step, mark_step,
                              ffi::Ffi::Bind().RemainingArgs().Attr<int32_t>("door"));

// XLA runs a function of few or small calls one after the other. Calls to this make it large: see `ringtune.jax.calls`.
XLA_FFI_DEFINE_HANDLER_SYMBOL(ringtune_jax_nothing, nothing, ffi::Ffi::Bind().RemainingRets());

// Takes the door of a process set of the world that was joined; or null, and why there is none.
extern "C" void ringtune_jax_open(uint32_t number, RingtuneDoor* door, const char* complaint) {
  Doors::instance().put(number, {door, complaint});
}

// Asked before the calls are used: an engine of another version has another table.
extern "C" uint32_t ringtune_submission_version() { return kRingtuneSubmissionVersion; }
