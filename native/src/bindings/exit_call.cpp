// SPDX-License-Identifier: Apache-2.0
#include "bindings/exit_call.h"

#include <cstdlib>

#include <sys/types.h>
#include <unistd.h>

namespace ringtune {
namespace {

struct ExitCall {
  CFunction function;
  pid_t pid;
};

void call(int status, void* argument) {
  const auto* last = static_cast<const ExitCall*>(argument);
  if (status == 0 && getpid() == last->pid) {
    last->function();
  }
}

}  // namespace

void call_after_success(CFunction function) {
  auto* last = new ExitCall{function, getpid()};  // lives until the process ends
  if (on_exit(&call, last) != 0) {
    delete last;
  }
}

}  // namespace ringtune
