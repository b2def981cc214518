// SPDX-License-Identifier: Apache-2.0
// Interface of a way to reach the peers: ordered control messages, one event to sleep on, and failures.
//
// Control messages are a tree: every rank sends requests to its host's leader (local rank 0), leaders pass them on to
// the coordinator (rank 0, the leader of its own host), whose responses come back to every rank, itself included, the
// same way. Sends never block: `false` means "no room now, try at the next progress". Otherwise a coordinator that
// executes a collective and a rank that waits for room would wait for each other.
//
// All calls but `notify`, `fail` and `failure` belong to the thread that does the engine's work at the time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "transport/failure.h"
#include "transport/sleeper.h"

namespace ringtune {

inline constexpr int kCoordinator = 0;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // To whom this rank's requests go.
  virtual int leader() const = 0;

  virtual bool try_send_request(ByteSpan frame) = 0;
  virtual bool try_receive_response(Bytes& frame) = 0;
  // A leader: with the ranks of its host.
  virtual bool try_receive_request(int from_rank, Bytes& frame) = 0;
  // To the ranks of its host; rank 0's go to the other leaders, too.
  virtual bool try_publish_response(ByteSpan frame) = 0;
  // A leader but rank 0: with rank 0.
  virtual bool try_forward_request(ByteSpan frame) = 0;
  virtual bool try_receive_published(Bytes& frame) = 0;
  // Rank 0 has departed, and the ranks of this host have all that it published.
  virtual void pass_on_departure() = 0;
  // Rank 0: with the other leaders.
  virtual bool try_receive_forwarded(int from_leader, Bytes& frame) = 0;
  // Largest frame that fits, whatever is queued.
  virtual size_t max_frame_bytes() const = 0;

  // Sleeping without losing an event: announce, look for work once more, then wait or cancel. Only an announced sleeper
  // is woken, so that cancelling another's announcement lets it sleep on, until `awaken`.
  virtual uint32_t announce_wait(Sleeper sleeper) = 0;
  virtual void cancel_wait(Sleeper sleeper) = 0;
  // Returns at the next event since `announce_wait`, or after `timeout_ns` (negative: no limit).
  virtual void wait(Sleeper sleeper, uint32_t ticket, int64_t timeout_ns) = 0;
  virtual void awaken(Sleeper sleeper) = 0;
  // An event. Any thread.
  virtual void notify() = 0;

  // Ends the world for all ranks; every rank reports the first caller's text. Any thread.
  virtual void fail(const Failure& failure) = 0;
  virtual std::optional<Failure> failure() const = 0;

  // A rank without a heartbeat for a time that no living rank is silent; kNoCulprit where none is known.
  virtual int silent_rank() const { return kNoCulprit; }
  // Round trip to the most distant leader of a host, as the network alone makes it; 0 where it is not known.
  virtual int64_t round_trip_ns() const { return 0; }
  // This host's end of the control connection to a rank: " by way of 10.0.0.1 (eth0)"; empty where there is none.
  virtual std::string describe_way(int /*rank*/) const { return ""; }

  // Within a collective, in which a peer has not moved since then: whether to give it up. See Interruption.
  virtual bool is_interrupted(int64_t /*waiting_since_ns*/) { return false; }

  // Leaves in good order: peers that need no more bytes from this rank are not disturbed.
  virtual void depart() = 0;
  virtual bool has_departed(int peer_rank) const = 0;
};

}  // namespace ringtune
