// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/communicator.h"

namespace ringtune {

// Returns when every rank has called it.
Status barrier(Communicator& comm, size_t chunk_bytes);

}  // namespace ringtune
