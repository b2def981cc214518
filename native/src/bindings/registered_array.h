// SPDX-License-Identifier: Apache-2.0
// Registered memory as Python sees it: a numpy array that keeps it alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace ringtune {

using RegisteredArray = nanobind::ndarray<nanobind::numpy, uint8_t, nanobind::ndim<1>>;

inline RegisteredArray as_array(std::shared_ptr<std::byte> memory, size_t bytes) {
  std::byte* const data = memory.get();
  auto held = std::make_unique<std::shared_ptr<std::byte>>(std::move(memory));
  const nanobind::capsule owner(held.release(),
                                [](void* last) noexcept { delete static_cast<std::shared_ptr<std::byte>*>(last); });
  return {data, {bytes}, owner};
}

}  // namespace ringtune
