// SPDX-License-Identifier: Apache-2.0
// Numbers of the engine's descriptors: never 0, 1 or 2. A process that was started with these closed gets the next file
// there, and any C code's output to stderr would be written into it: into shared memory, onto a connection.
#pragma once

namespace ringtune {

inline constexpr int kFirstOwnDescriptor = 3;

// Moves a descriptor, which is to be closed on exec, above the standard streams. Returns its new number; -1 for a
// negative one, with errno as it was, and where none is left, with errno set and the old one closed.
int above_standard_streams(int fd);

}  // namespace ringtune
