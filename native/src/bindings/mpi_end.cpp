// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi_end.h"

#include <cstdlib>

#include <sys/types.h>
#include <unistd.h>

namespace ringtune {
namespace {

struct MpiEnd {
  LoadedMpi mpi;
  pid_t pid;
};

void end_mpi(int status, void* argument) {
  const auto* end = static_cast<const MpiEnd*>(argument);
  if (getpid() != end->pid) {
    return;
  }
  if (status == 0) {
    end->mpi.finalize();
  } else {
    end->mpi.abort(end->mpi.world, status);
  }
}

}  // namespace

void end_mpi_at_exit(LoadedMpi mpi) {
  auto* end = new MpiEnd{mpi, getpid()};  // lives until the process ends
  if (on_exit(&end_mpi, end) != 0) {
    delete end;
  }
}

}  // namespace ringtune
