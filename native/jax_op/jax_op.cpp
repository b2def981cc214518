// SPDX-License-Identifier: Apache-2.0
// XLA calls that hand arrays to the engine as soon as they are computed, so that communication overlaps with the rest
// of the compiled step: see docs/howto/jax.md. Compiled by `python -m ringtune.jax_op`.
//
// A call returns a future at once; no thread of XLA's waits. The engine tells the end of an operation on its
// communication thread. XLA goes on with the step on the thread that fulfils the future, and that step may need the
// engine: one thread of this library takes the news on.
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

// One execution of a collective of some arrays. XLA keeps their buffers until the future is fulfilled.
struct Call {
  explicit Call(size_t arrays) : remaining(arrays + 1) {}

  ffi::Promise promise;
  std::atomic<size_t> remaining;  // arrays that the engine is not done with, and the submission
  std::mutex mutex;               // guards error
  std::string error;              // the first one; empty if there is none
};

void fulfil(ffi::Promise& promise, const std::string& error) {
  if (error.empty()) {
    promise.SetAvailable();
  } else {
    promise.SetError(ffi::Error::Internal(error));
  }
}

// The thread that tells XLA what the engine has told.
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

// Callback of the engine, for each array; `context` is the call.
void on_end(void* context, const char* error) {
  Call* const call = static_cast<Call*>(context);
  if (error != nullptr) {
    const std::lock_guard<std::mutex> lock(call->mutex);
    if (call->error.empty()) {
      call->error = error;
    }
  }
  if (call->remaining.fetch_sub(1) == 1) {
    const std::unique_ptr<Call> ended(call);
    Messenger::instance().post(std::move(ended->promise), std::move(ended->error));
  }
}

// All arrays were submitted. A call that has ended already, as one that was refused, is told here.
void end_submission(Call* call) {
  if (call->remaining.fetch_sub(1) == 1) {
    const std::unique_ptr<Call> ended(call);
    fulfil(ended->promise, ended->error);
  }
}

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

// A call whose future has failed.
ffi::Future refuse(const char* reason) {
  ffi::Promise failed;
  failed.SetError(ffi::Error::InvalidArgument(reason));
  return ffi::Future(failed);
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

// All arrays go to the engine at once, as one group.
ffi::Future submit(ffi::RemainingArgs inputs, ffi::RemainingRets outputs, Collective collective) {
  const std::vector<std::string> lines = lines_of(collective.names);
  const size_t arrays = inputs.size();
  if (!is_complete(collective, lines.size(), arrays, outputs.size())) {
    return refuse("a collective needs a name, a dtype, a result and the ranks' rows for each array");
  }
  auto* const call = new Call(arrays);
  ffi::Future future(call->promise);
  const Doors::Entry entry = Doors::instance().find(collective.door);
  const std::string group(arrays > 1 ? collective.group : "");
  for (size_t array = 0; array < arrays; ++array) {
    if (entry.door == nullptr) {
      on_end(call, ("ConfigError: " + entry.complaint).c_str());
      continue;
    }
    const ffi::AnyBuffer input = *inputs.get<ffi::AnyBuffer>(array);
    ffi::Result<ffi::AnyBuffer> output = *outputs.get<ffi::AnyBuffer>(array);
    RingtuneRequest request = request_of(collective, array, input, *output);
    request.name = lines[array].c_str();
    request.group = group.c_str();
    request.group_size = arrays > 1 ? static_cast<uint32_t>(arrays) : 0U;
    entry.door->table->submit(entry.door, &request, &on_end, call);
  }
  end_submission(call);
  return future;
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
