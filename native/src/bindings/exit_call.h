// SPDX-License-Identifier: Apache-2.0
// A C function that is called at the end of a process that succeeded; its exit code is known after the interpreter
// ended.
#pragma once

namespace ringtune {

using CFunction = int (*)();

// Calls a function at the end of this process, by `exit` and not by a signal, if its exit code is 0. A forked child
// does not call it.
void call_after_success(CFunction function);

}  // namespace ringtune
