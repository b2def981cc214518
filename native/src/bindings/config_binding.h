// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace ringtune {

// The table of knobs, and EngineConfig with an attribute for each.
void bind_config(nanobind::module_& module);

}  // namespace ringtune
