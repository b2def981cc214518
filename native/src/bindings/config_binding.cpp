// SPDX-License-Identifier: Apache-2.0
#include "bindings/config_binding.h"

#include <string>
#include <tuple>
#include <utility>

#include <nanobind/stl/string.h>

#include "base/config.h"

namespace ringtune {

namespace nb = nanobind;

namespace {

// A row of the table as Python reads it; None: the knob has no bounds, and 0 no meaning of its own.
struct KnobRow {
  std::string name;
  nb::object default_value;
  nb::object low;
  nb::object high;
  nb::object special;
  std::string description;
};

nb::object special_value(Zero zero) {
  switch (zero) {
    case Zero::kRefused:
      return nb::none();
    case Zero::kOff:
      return nb::int_(0);
    case Zero::kAuto:
      return nb::str(kAutoAlgorithm);
  }
  return nb::none();
}

template <typename T>
void put_bounds(KnobRow& row, const Range<T>& allowed) {
  row.low = nb::cast(allowed.low);
  row.high = nb::cast(allowed.high);
  row.special = special_value(allowed.zero);
}

template <typename Names>
void put_bounds(KnobRow&, const Names&) {}

template <typename T, typename Allowed>
KnobRow as_row(const Knob<T, Allowed>& knob) {
  KnobRow row{knob.name, nb::cast(EngineConfig().*knob.value), nb::none(), nb::none(), nb::none(), knob.description};
  put_bounds(row, knob.allowed);
  return row;
}

template <typename... T, typename... Allowed>
void bind_rows(nb::module_& module, const std::tuple<Knob<T, Allowed>...>& knobs) {
  const auto bind = [&module](const auto&... knob) {
    nb::class_<EngineConfig> config(module, "EngineConfig");
    config.def(nb::new_([](T... values) { return EngineConfig{std::move(values)...}; }), nb::kw_only(),
               nb::arg(knob.name)...);
    (config.def_ro(knob.name, knob.value), ...);
    config.def("hash", &config_hash);
    module.attr("KNOBS") = nb::make_tuple(as_row(knob)...);
  };
  std::apply(bind, knobs);
}

}  // namespace

void bind_config(nb::module_& module) {
  nb::class_<KnobRow>(module, "Knob")
      .def_ro("name", &KnobRow::name)
      .def_ro("default", &KnobRow::default_value)
      .def_ro("low", &KnobRow::low)
      .def_ro("high", &KnobRow::high)
      .def_ro("special", &KnobRow::special)
      .def_ro("description", &KnobRow::description);
  bind_rows(module, kKnobs);
}

}  // namespace ringtune
