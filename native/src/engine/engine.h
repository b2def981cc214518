// SPDX-License-Identifier: Apache-2.0
// One rank's engine: the public face of the native core.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/allreduce_timer.h"
#include "engine/coordinator.h"
#include "engine/gpu/gpu_tensors.h"
#include "engine/host_leader.h"
#include "engine/progress.h"
#include "engine/progress_loop.h"
#include "engine/submissions/handle_table.h"
#include "engine/submissions/submission_queue.h"
#include "telemetry/call_rounds.h"
#include "telemetry/counters.h"
#include "telemetry/step_recorder.h"
#include "telemetry/timeline.h"
#include "transport/cluster_transport.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/shm/arena.h"

namespace ringtune {

struct EngineOptions {
  int rank = 0;
  std::vector<int> hosts{0};  // one per rank; see Layout
  TransportOptions transport;
  // Makes the network for data, where the world has several hosts.
  std::function<std::unique_ptr<Links>(Transport&, const Layout&)> make_links;
  EngineConfig config;
  double stall_warn_s = 60;
  double timeout_s = 600;
  LogLevel log_level = LogLevel::kWarning;
  GpuOptions gpu;
};

// A tensor to be moved or reduced; buffers must live until the handle is done.
struct TensorArguments {
  std::string name;
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<int64_t> shape;
  DataType dtype = DataType::kFloat32;
  // Tensors of one group go together once all of them are ready, or fail together; empty: none.
  std::string group = {};
  uint32_t group_size = 0;
  // Location of a GPU's tensor, and the stream after whose work it may be read and written.
  DeviceStream stream = {};
  // Size of the output, where the caller knows it. A reducescatter of another size is refused; the rows of an allgather
  // or an alltoall that have another size do not go there.
  std::optional<size_t> output_bytes = {};
};

// postscale * op(prescale * x)
struct ReduceArguments {
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1;
  double postscale = 1;
};

class Engine {
 public:
  // The options are valid (`check_options`); the segment has the ranks of this host.
  Engine(std::shared_ptr<Segment> segment, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  static Status check_options(const EngineOptions& options);

  int rank() const { return options_.rank; }
  int world_size() const { return layout_.world_size(); }

  // Any thread. On success `handle` must be waited for once; or, where the caller gives `on_end`, that is called once
  // instead, and the handle has no meaning.
  Status allreduce_async(const TensorArguments& tensor, const ReduceArguments& reduce, bool is_gradient, Handle& handle,
                         OnEnd on_end = {});
  // The output takes this rank's rows: an even share, one more on the first ranks.
  Status reducescatter_async(const TensorArguments& tensor, const ReduceArguments& reduce, Handle& handle,
                             OnEnd on_end = {});
  Status broadcast_async(const TensorArguments& tensor, int root_rank, Handle& handle, OnEnd on_end = {});
  // Ranks may bring different numbers of rows (first dimension); the outcome's result has all of them. A sparse
  // gradient is gathered.
  Status allgather_async(const TensorArguments& tensor, bool is_gradient, Handle& handle, OnEnd on_end = {});
  // Sends `splits[r]` rows to every rank r; the outcome's result has the rows received.
  Status alltoall_async(const TensorArguments& tensor, std::vector<int64_t> splits, Handle& handle, OnEnd on_end = {});
  Status barrier_async(Handle& handle);
  // This rank has no more data: it takes part in sums with zeros until all ranks have joined.
  Status join_async(Handle& handle);

  // Any thread: memory of this host's ranks, alive as long as it is referred to, also after the engine. An allreduce in
  // place, of a tensor for which all ranks of a world of one host have such memory at the same offset (which equal
  // sequences of calls give), needs no copy. Fails where the memory cannot be had, and where there is no such memory.
  Status allocate_registered(size_t bytes, std::shared_ptr<std::byte>& memory);

  // True if the operation has ended, with its result in place.
  bool poll(Handle handle) { return handles_.is_done(handle) && is_drained(handle); }
  // True if the engine does not touch the buffers of an operation that was waited for any more.
  bool is_drained(Handle handle) { return gpu_->is_drained(handle); }
  // Waits up to `timeout_ns`, or until a running collective has ended; no outcome if the handle is still pending then.
  // Tensors submitted so far go at once, without waiting for others. The caller does the engine's work meanwhile, if no
  // other thread does. If it is then asked and wants out, it gets no outcome and the handle stays; the world is lost
  // where a collective was stuck. Of a GPU's tensor the result may still be on its way to the GPU: `stream` goes on
  // once it is there. Without a stream the caller waits for that, too.
  std::optional<Outcome> wait(Handle handle, int64_t timeout_ns, const Interruption::WantsOut& wants_out = {},
                              const DeviceStream& stream = {});
  // Likewise for a caller whose operations have an `on_end`, up to `limit_ns` on the steady clock. Comes back before
  // `is_done()` where another thread does the engine's work. False if the caller was asked and wants out.
  bool work_until(const std::function<bool()>& is_done, int64_t limit_ns, const Interruption::WantsOut& wants_out);

  // The training thread, after each optimizer step; returns its number. Where a device is still at the step, the thread
  // tells later when it ended, in the order of the steps.
  uint64_t mark_step(bool is_on_device = false);
  // The gradients of the step, where no submission says that it is one.
  void add_gradients(uint64_t tensor_set, uint64_t bytes) { steps_.add_gradient(tensor_set, bytes); }
  // Until the program marks a step, each round of calls that repeats is one. Any thread.
  void mark_rounds() { looks_for_rounds_ = true; }
  // The calls of such a round; none until there is one. No value where rounds are no steps.
  std::optional<std::vector<Call>> round_of_calls() const;
  void time_device_step(uint64_t step, int64_t end_ns) { steps_.time_device_step(step, end_ns); }

  // Rank 0: all ranks switch in the same round. The epoch is in force once `config_epoch()` has reached it.
  Status apply_config(const EngineConfig& config, uint64_t& epoch);
  // Rank 0: whether the tuner has finished, which all ranks learn.
  Status tell_tuning(bool is_finished);
  // Any rank: the same answer after the same step, however often it is called. False until rank 0 has announced it.
  bool is_tuning_finished() const { return steps_.is_tuning_finished(); }
  // A number for rank 0 from each rank of another host, and for these from rank 0, beside all collectives; 0 at first,
  // and between ranks of one host. See ControlLinks.
  void set_beacon(uint8_t beacon) { transport_.set_beacon(beacon); }
  uint8_t beacon_of(int rank) const;
  // Rank 0: all ranks measure the rates of the hosts' links before the next collective; any rank: the newest rates.
  Status measure_host_rates();
  HostRates host_rates() const { return progress_.host_rates(); }
  EngineConfig config() const { return active_.get(); }
  uint64_t config_epoch() const { return active_.epoch(); }

  StepRecorder& steps() { return steps_; }
  AllreduceTimer& timer() { return timer_; }
  // Trace of this rank's operations, for people.
  Timeline& timeline() { return timeline_; }
  std::vector<std::pair<std::string, uint64_t>> counters() const;
  // Time of this rank's engine's work, whichever thread does it.
  LapTimes& laps() { return laps_; }

  // Idempotent. Waits for the collective that is running, as long as it moves; fails all pending operations.
  void shutdown();
  // In a forked child: closes descriptors; only destruction is allowed afterwards, and has no effect.
  void abandon_after_fork();

 private:
  std::unique_ptr<Coordinator> make_coordinator();
  Leader* leader() const;
  Status submit(Submission submission, const DeviceStream& stream, bool is_kept, Handle& handle, OnEnd on_end);
  void note_call(const Submission& submission);
  uint64_t end_step(bool is_on_device);

  EngineOptions options_;
  Layout layout_;
  Log log_;
  Counters counters_;
  LapTimes laps_;
  StepRecorder steps_;
  std::atomic<bool> looks_for_rounds_{false};
  mutable std::mutex rounds_mutex_;  // guards rounds_, and the marking of steps by them
  CallRounds rounds_;
  Timeline timeline_;
  ClusterTransport transport_;
  std::unique_ptr<Links> links_;              // null where the world has one host
  std::shared_ptr<Arena> arena_;              // null where it has several, or the address space is limited
  std::unique_ptr<Coordinator> coordinator_;  // rank 0
  std::unique_ptr<HostLeader> host_leader_;   // leaders of other hosts
  std::unique_ptr<GpuTensors> gpu_;
  SubmissionQueue queue_;
  HandleTable handles_;
  ActiveConfig active_;
  Progress progress_;
  ProgressLoop loop_;
  AllreduceTimer timer_;
  std::thread communication_thread_;
  std::atomic<uint64_t> barriers_{0};
};

}  // namespace ringtune
