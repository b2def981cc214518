// SPDX-License-Identifier: Apache-2.0
#include "bindings/algorithm_table_binding.h"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/clock.h"
#include "bindings/errors.h"

namespace ringtune {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

// (max_bytes, algorithm, chunk_bytes); no bound is None.
using Row = std::tuple<std::optional<uint64_t>, std::string, uint64_t>;

std::vector<Row> default_rows(const std::vector<int>& hosts) {
  const AlgorithmTable table(Layout(0, hosts));
  std::vector<Row> rows;
  for (const TableRow& row : table.rows()) {
    rows.emplace_back(row.max_bytes == kAnySize ? std::nullopt : std::optional<uint64_t>(row.max_bytes),
                      std::string(allreduce_algorithms()[static_cast<size_t>(row.algorithm)].name), row.chunk_bytes);
  }
  return rows;
}

std::vector<std::string> choices_of_auto(const std::vector<int>& hosts, bool is_hierarchical) {
  const Layout layout(0, hosts);
  std::vector<std::string> names;
  for (const AllreduceAlgorithm& algorithm : allreduce_algorithms()) {
    if (is_choice_of_auto(algorithm, layout, is_hierarchical)) {
      names.emplace_back(algorithm.name);
    }
  }
  return names;
}

void set_rows(EngineHandle& self, const std::vector<Row>& rows) {
  std::vector<TableRow> known;
  for (const auto& [max_bytes, algorithm, chunk_bytes] : rows) {
    known.push_back({max_bytes ? *max_bytes : kAnySize, algorithm_named(algorithm), chunk_bytes});
  }
  AllreduceTimer& timer = self.engine().timer();
  const nb::gil_scoped_release unlocked;
  raise_unless_ok(timer.set_table(std::move(known)));
}

bool begin_timing(EngineHandle& self, uint64_t max_bytes) {
  AllreduceTimer& timer = self.engine().timer();
  const nb::gil_scoped_release unlocked;
  bool has_room = false;
  raise_unless_ok(timer.begin(max_bytes, has_room));
  return has_room;
}

double time_allreduce(EngineHandle& self, uint64_t size_bytes, const std::string& algorithm, uint64_t chunk_bytes,
                      uint32_t calls) {
  AllreduceTimer& timer = self.engine().timer();
  const nb::gil_scoped_release unlocked;
  int64_t elapsed_ns = 0;
  raise_unless_ok(timer.run({size_bytes, algorithm_named(algorithm), chunk_bytes, calls, 0}, elapsed_ns));
  return static_cast<double>(elapsed_ns) / static_cast<double>(kNsPerS);
}

}  // namespace

void bind_algorithm_table(nb::module_& module, nb::class_<EngineHandle>& engine) {
  module.def("default_algorithm_table", &default_rows, "hosts"_a);
  module.def("choices_of_auto", &choices_of_auto, "hosts"_a, "is_hierarchical"_a);
  engine.def("set_algorithm_table", &set_rows, "rows"_a)
      .def("begin_timing", &begin_timing, "max_bytes"_a)
      .def("time_allreduce", &time_allreduce, "size_bytes"_a, "algorithm"_a, "chunk_bytes"_a, "calls"_a)
      .def("end_timing",
           [](EngineHandle& self) {
             AllreduceTimer& timer = self.engine().timer();
             const nb::gil_scoped_release unlocked;
             raise_unless_ok(timer.end());
           })
      .def("follow_timing", [](EngineHandle& self) {
        AllreduceTimer& timer = self.engine().timer();
        const nb::gil_scoped_release unlocked;
        raise_unless_ok(timer.follow());
      });
}

}  // namespace ringtune
