// SPDX-License-Identifier: Apache-2.0
// Round trip of a TCP connection. A file of its own: the kernel's header, which alone has that field, and the C
// library's exclude each other.
#pragma once

#include <cstdint>

namespace ringtune {

// The shortest round trip of the last minutes, by the kernel's clock: queues and busy processes on the way do not
// count. 0 where the kernel does not know one, as for a socket of another family.
int64_t round_trip_ns(int fd);

}  // namespace ringtune
