// SPDX-License-Identifier: Apache-2.0
// Binding by which Python submits tensors to the engine and waits for them.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine_handle.h"

namespace ringtune {

void bind_submissions(nanobind::module_& module, nanobind::class_<EngineHandle>& engine);

}  // namespace ringtune
