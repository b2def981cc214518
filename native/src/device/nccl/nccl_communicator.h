// SPDX-License-Identifier: Apache-2.0
// A communicator that never blocks: whoever waits on it asks again and again, and may give it up at any time.
//
// All calls of one thread at a time, with the device's context current. An operation is enqueued on a stream only when
// `settle` has returned after `group_end`; events are recorded then.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "device/nccl/nccl_library.h"
#include "device/nccl/nccl_meaning.h"

namespace ringtune {

struct NcclBuffers {
  const std::byte* input;
  std::byte* output;  // may be the input
  size_t elements;
};

// Ranks of a communicator that have one of their own.
struct NcclPart {
  int color = 0;     // the same for those ranks alone
  int key = 0;       // place among them
  int max_ctas = 0;  // thread blocks that NCCL may use; 0: as many as it chooses
};

class NcclCommunicator {
 public:
  // Answers whether a wait goes on: ok, or the reason why it ends. Called at least every millisecond.
  using Watch = std::function<Status()>;

  explicit NcclCommunicator(std::shared_ptr<const NcclLibrary> library) : library_(std::move(library)) {}
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // One rank calls it, and gives the id to the others.
  static Status make_id(const NcclLibrary& library, NcclUniqueId& id);

  // Meets the other ranks; the caller settles.
  Status begin(const NcclUniqueId& id, int rank, int world_size);
  // Becomes a part of another communicator, on which no operation is under way and all of whose ranks do the same, and
  // shares its memory: the two are used in turn, and an abort of one ends the kernels of both. Ready on return; where
  // the ranks do not meet, the whole is aborted.
  Status split_off(NcclCommunicator& whole, const NcclPart& part, const Watch& watch);
  // Waits until NCCL has taken over the calls so far. An error of the watch leaves the communicator to be aborted.
  Status settle(const Watch& watch);
  // An error that came after an operation was enqueued, such as the loss of a peer; never waits.
  Status error();

  // Lets the operations that `enqueue` names go together, and waits until NCCL has enqueued them.
  Status run_group(const std::function<Status()>& enqueue, const Watch& watch);
  Status group_start();
  // The group goes together; the caller settles. After an error in between, too: NCCL must not stay in the group.
  Status group_end();
  Status allreduce(const NcclReduction& reduction, const NcclBuffers& buffers, NcclStream stream);
  // In a group.
  Status allreduce_each(const NcclReduction& reduction, std::span<const NcclBuffers> all, NcclStream stream);
  // To one rank: the others' output is not touched.
  Status reduce(const NcclReduction& reduction, const NcclBuffers& buffers, int root, NcclStream stream);
  // `buffers.elements` are those of a rank; the input has as many times the number of ranks.
  Status reduce_scatter(const NcclReduction& reduction, const NcclBuffers& buffers, NcclStream stream);
  // Below, elements are bytes.
  // The input is the root's alone.
  Status broadcast(const NcclBuffers& buffers, int root, NcclStream stream);
  // `buffers.elements` are those of a rank; the output has as many times the number of ranks.
  Status allgather(const NcclBuffers& buffers, NcclStream stream);
  // Every send has its receive in the same group, also from a rank to itself.
  Status send(std::span<const std::byte> data, int peer, NcclStream stream);
  Status receive(std::span<std::byte> data, int peer, NcclStream stream);

  // In good order: waits for the operations under way, with all ranks. Without success it is aborted.
  Status close(const Watch& watch);
  // Ends the operations under way on this rank; may wait for kernels to notice, never for peers. Idempotent.
  void abort();
  bool is_open() const { return handle_ != nullptr; }

 private:
  Status check(int result, const char* function);
  // Waits until NCCL is not busy with the communicator.
  Status await_idle(const Watch& watch);
  // The operation's number for NCCL.
  Status number_of(const NcclReduction& reduction, int& op);

  std::shared_ptr<const NcclLibrary> library_;
  NcclHandle handle_ = nullptr;
  std::map<std::pair<NcclType, double>, int> scaled_sums_;  // made at first use, kept
};

}  // namespace ringtune
