// SPDX-License-Identifier: Apache-2.0
// The C ABI by which a front end's compiled part hands tensors to the engine without Python: a shared library that is
// compiled on the user's machine against the frameworks installed there, such as the TensorFlow operation.
//
// Python gives it an engine's door as a number (`_engine.Engine.submission_door`). Every function may be called from
// any thread, also after the engine was shut down.
#pragma once

#include <cstdint>

extern "C" {

// Raised whenever anything in this file changes.
inline constexpr uint32_t kRingtuneSubmissionVersion = 5;

struct RingtuneSubmissionTable;

// The way to one engine. It outlives the engine: an address that was given out stays valid until the process ends.
struct RingtuneDoor {
  const RingtuneSubmissionTable* table;
};

enum RingtuneCollective : uint32_t {
  kRingtuneAllreduce,
  kRingtuneBroadcast,
  kRingtuneAllgather,
  kRingtuneAlltoall,
  kRingtuneReducescatter,
};

// A tensor and the collective on it. Every member that the collective does not name may be zero.
struct RingtuneRequest {
  uint32_t collective;  // a RingtuneCollective
  uint32_t dtype;       // dtype and reduction: the numbers that `_engine.Engine` documents
  const char* name;     // key that matches the ranks' tensors; texts end with a zero
  const void* input;
  void* output;  // may be the input, but of an allgather or an alltoall
  uint64_t output_bytes;
  const int64_t* shape;  // extents of the input
  uint32_t dimensions;
  uint32_t reduction;  // allreduce, reducescatter: the result is postscale * reduction(prescale * input)
  double prescale;
  double postscale;
  uint32_t is_gradient;  // allreduce, allgather
  uint32_t group_size;
  const char* group;        // allreduce, allgather, reducescatter; empty: none
  uint32_t root_rank;       // broadcast
  uint32_t ranks;           // allgather, alltoall: length of `rows_for`, which must be the size of the world
  const int64_t* rows_for;  // alltoall: rows that go to each rank
  const int64_t* rows_of;   // allgather, alltoall: rows from each rank that the output has room for
  uint32_t is_on_gpu;       // 1: input and output are memory of a GPU; a broadcast's are the same
  int32_t gpu;              // its number, as CUDA counts those that the process sees
  uint64_t stream;          // CUDA stream after whose work they may be read and written; it goes on after the result
};

// `error` is null, or the class of the error and its text, such as "PeerLostError: rank 1 ...". Returns at once.
typedef void (*RingtuneOnEnd)(void* context, const char* error);

// True (1) once the operation that the caller waits for has ended.
typedef int (*RingtuneIsDone)(void* context);

// End of a wait.
enum RingtuneWaited : uint32_t {
  kRingtuneOver,    // done, or out of time
  kRingtuneBusy,    // another thread does the engine's work: `on_end` tells
  kRingtuneRaised,  // Python has an exception for this thread: Ctrl-C, or a handler's
};

struct RingtuneSubmissionTable {
  uint32_t version;
  // Both buffers must live until `on_end` is called: exactly once, on a thread of the engine's, or within this call
  // where the tensor is refused. A GPU's stream waits for the result by then, the buffers must live until it has.
  void (*submit)(RingtuneDoor* door, const RingtuneRequest* request, RingtuneOnEnd on_end, void* context);
  // The end of an optimizer step.
  void (*mark_step)(RingtuneDoor* door);
  // Does the engine's work up to `timeout_ns`, until `is_done(context)`, which an `on_end` makes true. Tensors
  // submitted so far go at once, without waiting for others. The thread must not hold the GIL of its Python.
  RingtuneWaited (*wait)(RingtuneDoor* door, RingtuneIsDone is_done, void* context, int64_t timeout_ns);
};

}  // extern "C"
