// SPDX-License-Identifier: Apache-2.0
// The messages of the negotiation: requests to the coordinator, from other hosts by way of their leaders; responses to
// every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena_offset.h"
#include "base/bytes.h"
#include "base/config.h"
#include "base/dtype.h"
#include "base/status.h"
#include "wire/cache_ids.h"

namespace ringtune {

enum class OpKind : uint8_t { kAllreduce, kBroadcast, kAllgather, kBarrier, kReducescatter, kAlltoall, kJoin };
inline constexpr int kOpKindCount = 7;

std::string_view op_kind_name(OpKind kind);
// True if ranks may bring different numbers of rows (the first dimension).
inline bool is_ragged(OpKind kind) { return kind == OpKind::kAllgather || kind == OpKind::kAlltoall; }

// Memory of a tensor. Its GPU's number does not matter to other ranks.
enum class MemoryKind : uint8_t { kHost, kCuda };
inline constexpr int kMemoryKindCount = 2;

// Properties of a tensor on which the ranks must agree.
struct Signature {
  OpKind kind = OpKind::kBarrier;
  DataType dtype = DataType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  int32_t root_rank = 0;
  double prescale = 1;
  double postscale = 1;
  std::vector<int64_t> shape;  // a row's, where the kind is ragged
  std::string group;           // tensors of one group go together or not at all; empty: none
  uint32_t group_size = 0;
  MemoryKind memory = MemoryKind::kHost;
  bool is_gradient = false;  // an allreduce that the knob `wire` may round between hosts

  bool operator==(const Signature&) const = default;

  uint64_t elements() const;
  uint64_t bytes() const { return elements() * element_bytes(dtype); }
  // "allreduce(average) float32 [64, 128]", for messages.
  std::string describe() const;
};

// A tensor that the coordinator does not know yet, or knows otherwise.
struct RequestItem {
  std::string name;
  Signature signature;
  // In the sender's arena. Ranks need not agree in it; where all do, the tensor can be reduced where it is.
  ArenaOffset arena_offset = kNotInArena;
};

struct Request {
  // Config of the sender: the coordinator stops the job if its own hash of that epoch differs.
  uint64_t config_epoch = 0;
  uint64_t config_hash = 0;
  std::vector<CacheId> cached;     // ascending
  std::vector<RequestItem> items;  // submitted after those of `cached`
};

// Message of a host's leader: a rank's request, or the ids that every rank of the host has requested.
struct ForwardedRequest {
  static constexpr int32_t kEveryRank = -1;  // all ranks of the leader's host

  int32_t rank = kEveryRank;
  Request request;
};

// A tensor that not all ranks know by an id.
struct ResponseTensor {
  CacheId cache_id = kNoCacheId;  // if there is one: learn this pair
  std::string name;
  // For ranks that have not submitted the tensor because they have joined.
  std::optional<Signature> signature;
};

struct Response {
  // kHostRates: all ranks measure the rates of the hosts' links together.
  enum class Type : uint8_t { kCollective, kConfigSwitch, kError, kJoined, kTuning, kHostRates };
  static constexpr int kTypeCount = 6;

  Type type = Type::kCollective;
  uint64_t cycle = 0;         // number of the negotiation round
  uint64_t config_epoch = 0;  // in force from this response on

  // kCollective: equal but for their shapes; fused in this order, `cached` before `tensors`.
  uint8_t algorithm = 0;  // allreduce: the registry's row; allgather: 1 if it is hierarchical
  uint64_t chunk_bytes = 0;
  uint64_t in_flight_bytes = 0;  // allreduce: see AllreduceTask
  std::vector<CacheId> cached;
  bool is_for_nccl = false;             // if the ranks have it
  std::vector<ResponseTensor> tensors;  // also kError: whom it concerns

  EngineConfig config;  // kConfigSwitch

  StatusCode error_code = StatusCode::kOk;  // kError
  std::string error_text;

  int32_t last_joined_rank = 0;  // kJoined

  // kTuning
  bool is_tuning_finished = false;
  uint64_t from_step = 0;  // number of the step from whose end on it holds, counted from the last join of all ranks
};

Bytes encode(const Request& request);
Bytes encode(const ForwardedRequest& forwarded);
Bytes encode(const Response& response);

// False for a frame that is short, has trailing bytes or values outside their range; the output is then undefined.
bool decode(ByteSpan frame, Request& request);
bool decode(ByteSpan frame, ForwardedRequest& forwarded);
bool decode(ByteSpan frame, Response& response);

}  // namespace ringtune
