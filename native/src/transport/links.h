// SPDX-License-Identifier: Apache-2.0
// Bytes between any two ranks of a world that spans hosts: TCP, or an existing MPI.
#pragma once

#include "base/bytes.h"
#include "base/status.h"

namespace ringtune {

class Links {
 public:
  virtual ~Links() = default;

  // Sends `out` to rank `to` and receives `in.size()` bytes from rank `from`, both at once; a side that is empty has no
  // peer. Both ends of a pair use equal sizes; bytes between two ranks stay in order and are not framed. The
  // communication thread alone calls it. Returns when both sides are through, and fails when the world has failed, the
  // peer is lost, or nothing moved for the limit.
  virtual Status exchange(int to, ByteSpan out, int from, MutableByteSpan in) = 0;

  // In a forked child: closes descriptors; nothing else is called there.
  virtual void abandon_after_fork() = 0;
};

}  // namespace ringtune
