// SPDX-License-Identifier: Apache-2.0
// The end of MPI in a process, by its exit code, which is known only after the interpreter has ended.
#pragma once

#include <cstdint>

namespace ringtune {

// Functions and world of an MPI, which mpi4py has loaded.
struct LoadedMpi {
  int (*finalize)();
  int (*abort)(intptr_t communicator, int exit_code);  // a handle is an int or a pointer, by MPI
  intptr_t world;
};

// At the end of this process, by `exit` and not by a signal, finalises MPI if the exit code is 0, and else aborts the
// job with that code. A forked child does neither.
void end_mpi_at_exit(LoadedMpi mpi);

}  // namespace ringtune
