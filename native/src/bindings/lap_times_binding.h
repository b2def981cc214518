// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace ringtune {

void bind_lap_times(nanobind::module_& module);

}  // namespace ringtune
