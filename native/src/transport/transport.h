// SPDX-License-Identifier: Apache-2.0
// What the engine needs from a way to reach its peers: ordered control messages, one event to sleep on, and failures.
//
// Control messages go from every rank to the coordinator (rank 0) and from the coordinator to every rank, itself
// included. Sends never block: `false` means "no room now, try at the next progress". Otherwise a coordinator that
// executes a collective and a rank that waits for room would wait for each other.
//
// All calls but `notify`, `fail` and `failure` belong to the thread that does the engine's work at the time.
#pragma once

#include <cstdint>
#include <optional>

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

  virtual bool try_send_request(ByteSpan frame) = 0;
  virtual bool try_receive_request(int from_rank, Bytes& frame) = 0;
  virtual bool try_publish_response(ByteSpan frame) = 0;
  virtual bool try_receive_response(Bytes& frame) = 0;
  // Largest frame that fits, whatever is queued.
  virtual size_t max_frame_bytes() const = 0;

  // Sleeping without losing an event: announce, look for work once more, then wait or cancel. Only who has announced
  // itself is woken, so that whoever cancels another's announcement lets it sleep on, until `awaken`.
  virtual uint32_t announce_wait(Sleeper sleeper) = 0;
  virtual void cancel_wait(Sleeper sleeper) = 0;
  // Returns at the next event since `announce_wait`, or after `timeout_ns` (negative: no limit).
  virtual void wait(Sleeper sleeper, uint32_t ticket, int64_t timeout_ns) = 0;
  virtual void awaken(Sleeper sleeper) = 0;
  // An event. Any thread.
  virtual void notify() = 0;

  // Ends the world for all ranks; the first caller's text is what every rank reports. Any thread.
  virtual void fail(const Failure& failure) = 0;
  virtual std::optional<Failure> failure() const = 0;

  // A rank of which nothing has been heard for a time that no living rank is silent; kNoCulprit where none is known.
  virtual int silent_rank() const { return kNoCulprit; }

  // Leaves in good order: peers that need nothing more from this rank are not disturbed.
  virtual void depart() = 0;
  virtual bool has_departed(int peer_rank) const = 0;
};

}  // namespace ringtune
