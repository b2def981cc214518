// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine_handle.h"

namespace ringtune {

// The algorithm table and the functions that fill it.
void bind_algorithm_table(nanobind::module_& module, nanobind::class_<EngineHandle>& engine);

}  // namespace ringtune
