// SPDX-License-Identifier: Apache-2.0
#include "bindings/signals.h"

#include <csignal>

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace ringtune {
namespace {

// True if Ctrl-C would be a KeyboardInterrupt here: no code has replaced Python's handler.
bool is_interrupt_plain() {
  const nb::module_ signals = nb::module_::import_("signal");
  return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
}

}  // namespace

bool is_interrupted() {
  const nb::gil_scoped_acquire locked;
  if (!is_interrupt_plain() || PyOS_InterruptOccurred() == 0) {
    return false;
  }
  PyErr_SetInterrupt();  // the look took it away
  return true;
}

bool has_signal_raised() {
  const nb::gil_scoped_acquire locked;
  return PyErr_CheckSignals() != 0;
}

}  // namespace ringtune
