// SPDX-License-Identifier: Apache-2.0
// The collective layer as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace ringtune {

void bind_collective_layer(nanobind::module_& module);

}  // namespace ringtune
