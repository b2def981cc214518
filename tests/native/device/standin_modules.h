// SPDX-License-Identifier: Apache-2.0
// Modules of the stand-in for the driver: PTX that was loaded, and the kernels that it holds.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "standin_kernels.h"

namespace standin {

struct Module;

struct LoadedKernel {
  Module* module;
  const CompiledKernel* compiled;
};

struct Module : std::enable_shared_from_this<Module> {
  explicit Module(std::string text) : ptx(std::move(text)) {}

  // Bytes of the one parameter that the PTX declares for the kernel; no value if it has no such kernel.
  std::optional<size_t> parameter_bytes(const std::string& kernel) const;

  const std::string ptx;
  std::atomic<int> waiting{0};  // launches whose turn has not come
  std::map<std::string, std::unique_ptr<LoadedKernel>> kernels;
};

// The size of a launch, as the driver's function is given it.
struct Launch {
  unsigned blocks[3];
  unsigned threads[3];
  unsigned shared_bytes;
};

// True if a GPU can do it.
bool is_possible(const Launch& launch);

// True if the text begins as PTX does: comments, then the directive `.version`.
bool is_ptx(const std::string& text);

}  // namespace standin
