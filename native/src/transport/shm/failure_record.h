// SPDX-License-Identifier: Apache-2.0
// The failure record in the segment's header: written once, read by every rank of the host.
#pragma once

#include <optional>

#include "transport/failure.h"
#include "transport/shm/segment.h"

namespace ringtune {

// Keeps the first failure and rings every rank. Any thread.
void record_failure(Segment& segment, const Failure& failure);

bool has_failure(Segment& segment);
std::optional<Failure> read_failure(Segment& segment);

}  // namespace ringtune
