// SPDX-License-Identifier: Apache-2.0
// TLS for Python, which makes the connections: keys, and a session for each socket. The engine takes the sessions over.
#pragma once

#include <nanobind/nanobind.h>

namespace ringtune {

void bind_tls(nanobind::module_& module);

}  // namespace ringtune
