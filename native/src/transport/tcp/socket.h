// SPDX-License-Identifier: Apache-2.0
// Stream sockets that never block: their options, and single attempts to move bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace ringtune {

// Makes a connected socket of the rendezvous ours: non-blocking, closed on exec. TCP sends at once, and ends a
// connection over which the peer's machine has been silent for a second more than `timeout_ns` (0: the system's limit).
// Best effort.
void adopt_socket(int fd, int64_t timeout_ns);

// Lets `bytes` be in flight in each direction where the system grants that in full: a smaller fixed size would be worse
// than the one that TCP adapts by itself.
void widen_buffers(int fd, int bytes);

// Bounds the bytes that the system takes for a socket beyond those that TCP has put on the way: bytes that wait there
// could go by another connection. Best effort.
void limit_unsent(int fd, int bytes);

// This host's end of a connection, also of a lost one: "10.0.0.1 (eth0)"; empty for a socket of another family.
std::string describe_own_end(int fd);

struct Moved {
  size_t bytes = 0;
  bool is_lost = false;
  int error = 0;  // errno if is_lost, or 0 where the peer closed its end; EBADMSG of TLS
};

// Sends as much as goes at once; neither bytes nor a loss means "not now". Never raises SIGPIPE. `has_more`: more bytes
// follow at once, which may share a packet with these.
Moved try_send(int fd, ByteSpan bytes, bool has_more = false);
Moved try_receive(int fd, MutableByteSpan bytes);

// Sent, and not yet confirmed by the peer's kernel.
size_t unconfirmed_bytes(int fd);

// "the peer closed it", "Connection reset by peer"
std::string describe_loss(int error);

}  // namespace ringtune
