// SPDX-License-Identifier: Apache-2.0
#include "bindings/collective_layer_binding.h"

#include <memory>
#include <utility>

#include "bindings/collective_layer.h"
#include "bindings/errors.h"
#include "bindings/parse_enum.h"
#include "bindings/registered_array.h"

namespace ringtune {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

void construct_layer(CollectiveLayer* self, int segment_fd, int rank, int world_size, double timeout_s) {
  std::shared_ptr<Segment> segment;
  raise_unless_ok(Segment::map(segment_fd, world_size, segment));
  new (self) CollectiveLayer(std::move(segment), rank, world_size, timeout_s);
}

}  // namespace

void bind_collective_layer(nb::module_& module) {
  nb::class_<CollectiveLayer>(module, "CollectiveLayer")
      .def("__init__", &construct_layer, "segment_fd"_a, "rank"_a, "world_size"_a, "timeout_s"_a)
      .def(
          "allreduce",
          [](CollectiveLayer& self, uintptr_t data, size_t elements, int dtype, int calls) {
            const DataType parsed = parse_dtype(dtype);
            const nb::gil_scoped_release unlocked;
            raise_unless_ok(self.allreduce(reinterpret_cast<std::byte*>(data), elements, parsed, calls));
          },
          "data_ptr"_a, "elements"_a, "dtype"_a, "calls"_a)
      .def(
          "allocate_registered",
          [](CollectiveLayer& self, size_t size_bytes) {
            std::shared_ptr<std::byte> memory;
            raise_unless_ok(self.allocate_registered(size_bytes, memory));
            return as_array(std::move(memory), size_bytes);
          },
          "size_bytes"_a)
      .def_prop_ro("laps", &CollectiveLayer::laps, nb::rv_policy::reference_internal);
}

}  // namespace ringtune
