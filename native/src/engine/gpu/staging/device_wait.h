// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "device/device.h"

namespace ringtune {

// Returns when the event's work is done, or `watch` gives a reason to wait no longer.
Status await_event(const DeviceEvent& event, const std::function<Status()>& watch);

}  // namespace ringtune
