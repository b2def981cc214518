// SPDX-License-Identifier: Apache-2.0
#include "bindings/lap_times_binding.h"

#include "base/lap_times.h"

namespace ringtune {

namespace nb = nanobind;

namespace {

nb::dict seconds(const LapTimes& laps) {
  nb::dict values;
  for (size_t lap = 0; lap < kLapCount; ++lap) {
    values[kLapNames[lap]] = ns_to_seconds(laps.total_ns(static_cast<Lap>(lap)));
  }
  return values;
}

}  // namespace

void bind_lap_times(nb::module_& module) {
  nb::class_<LapTimes>(module, "LapTimes").def("start", &LapTimes::start).def("seconds", &seconds);
}

}  // namespace ringtune
