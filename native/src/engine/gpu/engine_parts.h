// SPDX-License-Identifier: Apache-2.0
// Parts of an engine that its GPUs' tensors have to do with; they live longer than these.
#pragma once

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "telemetry/counters.h"
#include "telemetry/timeline.h"
#include "transport/layout.h"
#include "transport/shm/arena.h"
#include "transport/transport.h"

namespace ringtune {

struct EngineParts {
  const Layout& layout;
  Transport& transport;
  std::shared_ptr<Arena> arena;  // null where there is none
  Counters& counters;
  Timeline& timeline;
  const Log& log;
  int64_t timeout_ns;
};

}  // namespace ringtune
