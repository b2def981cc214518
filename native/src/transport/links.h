// SPDX-License-Identifier: Apache-2.0
// Bytes between any two ranks of a world that spans hosts: TCP, or an existing MPI. The thread that does the engine's
// work at the time alone calls it.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace ringtune {

class Links {
 public:
  virtual ~Links() = default;

  // Begins to send `out` to rank `to` and to receive `in.size()` bytes from rank `from`, both at once; a side that is
  // empty has no peer. Both ends of a pair use equal sizes; bytes between two ranks stay in order and are not framed.
  // Exchanges that have begun move side by side, whenever one is begun or finished: their memory must live until then.
  // Fails when the world has failed or the peer is lost; all exchanges are then given up.
  virtual Status begin(int to, ByteSpan out, int from, MutableByteSpan in) = 0;

  // Returns when the exchange that has begun first is through. Fails as above, and when no byte moved for the limit.
  virtual Status finish() = 0;

  // Gives up all exchanges: their memory is not touched any more. Only where the world has failed.
  virtual void give_up() = 0;

  // An exchange by itself, while none has begun.
  Status exchange(int to, ByteSpan out, int from, MutableByteSpan in) {
    const Status begun = begin(to, out, from, in);
    return begun.ok() ? finish() : begun;
  }

  // Number of connections that share the messages of two hosts' ranks from now on, as many as there are at most; all
  // ranks change it between the same exchanges, while none has begun. Without effect on a network of one connection.
  virtual void use_connections(uint64_t /*connections*/) {}
  // Connections between two ranks: the one that carries messages alone, and those that share them. Any thread.
  virtual size_t connections() const { return 0; }
  // Payload that a connection has sent to all peers. Any thread.
  virtual uint64_t sent_bytes(size_t /*connection*/) const { return 0; }
  // ". Bytes to it are unconfirmed by way of 10.0.0.1 (eth0)", of bytes that were sent to a rank; empty if none are.
  virtual std::string describe_unconfirmed(int /*rank*/) const { return ""; }

  // In a forked child: closes descriptors; no other function is called there.
  virtual void abandon_after_fork() = 0;
};

}  // namespace ringtune
