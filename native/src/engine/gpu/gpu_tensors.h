// SPDX-License-Identifier: Apache-2.0
// Tensors of GPUs on their way through the engine: the one interface by which it knows of them.
//
// Every submission and every response passes here; tensors of the host pass unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "collectives/collective_context.h"
#include "engine/gpu/device_stream.h"
#include "engine/gpu/engine_parts.h"
#include "engine/gpu/gpu_rules.h"
#include "engine/submissions/outcome.h"
#include "engine/submissions/submission.h"
#include "wire/messages.h"

namespace ringtune {

class GpuTensors {
 public:
  GpuTensors() = default;
  virtual ~GpuTensors() = default;
  GpuTensors(const GpuTensors&) = delete;
  GpuTensors& operator=(const GpuTensors&) = delete;

  // Below: any thread.

  // Takes a submission that names memory of the stream's GPU, after all that the stream has been given: it stays there,
  // or its copy to the host begins. `is_kept`: the name comes again. `on_end` is called once the stream waits for the
  // result.
  virtual Status take_in(const DeviceStream& stream, bool is_kept, Submission& submission, OnEnd& on_end) = 0;
  // The operation of these tensors has ended. After a success, which only the driving thread reports, begins the copies
  // of the results and lets `done` be their end; after a failure lets go of the tensors. Returns the status that the
  // callers are to see.
  virtual Status give_back(std::span<Submission> tensors, const Status& status) = 0;
  // Lets the stream wait until the result is there; without a stream the thread waits.
  virtual Status wait_for(const DeviceEvent& done, const DeviceStream& stream) = 0;
  // True if no copy from or to the operation's buffers is under way any more.
  virtual bool is_drained(Handle handle) = 0;

  // Below: calls of the driving thread, which does the engine's work.

  // The knobs from now on, at the same place among the responses on all ranks.
  virtual void set_config(const EngineConfig& config) = 0;
  // Adds a batch, and returns the submissions that the other ranks may hear of now, in their order: those on their way
  // to the host are not among them. The engine is notified when the next can go.
  virtual std::vector<Submission> collect(std::vector<Submission> batch, int64_t now_ns) = 0;
  // The submissions that are held back.
  virtual std::vector<Submission> take_held_back() = 0;
  // Runs the collective of a response if all ranks do it on their GPUs, and says so; its results are there at `done`.
  // If not, the tensors are in the host's memory afterwards.
  virtual Status run(const Response& response, std::span<Submission> tensors, CollectiveContext& host,
                     bool& is_done) = 0;
  // The name of the way that such a collective takes on GPUs, once they are known to be used; else empty.
  virtual std::string_view algorithm(OpKind kind) const = 0;
  // Looks after the operations under way on the GPU; an error ends the world.
  virtual void watch() = 0;
  // When to look again; no value where the GPU is idle.
  virtual std::optional<int64_t> due_ns() const = 0;
  // The world has failed: ends the operations under way on this rank's GPU.
  virtual void abort() = 0;

  // No thread does the engine's work any more. Waits some seconds for the operations under way. Idempotent.
  virtual void close() = 0;
};

std::unique_ptr<GpuTensors> make_gpu_tensors(const GpuOptions& options, const EngineParts& engine);

// True if there is a driver, and a GPU that it sees.
bool has_cuda();

}  // namespace ringtune
