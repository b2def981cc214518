// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/collective_context.h"

namespace ringtune {

// Returns when every rank has called it.
Status barrier(CollectiveContext& context, size_t chunk_bytes);

}  // namespace ringtune
