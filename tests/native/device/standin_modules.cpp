// SPDX-License-Identifier: Apache-2.0
// The driver's functions for modules and launches.
#include "standin_modules.h"

#include <cstring>
#include <regex>

#include "standin_machine.h"

namespace standin {
namespace {

constexpr size_t kMaxParameterBytes = 4096;
constexpr uint64_t kMaxBlocks[] = {(1ULL << 31) - 1, 65535, 65535};
constexpr uint64_t kMaxThreads[] = {1024, 1024, 64};
constexpr uint64_t kMaxThreadsOfBlock = 1024;
constexpr unsigned kMaxSharedBytes = 48 * 1024;

// True if a kernel may use the memory: the GPU's own, or pinned memory of the host.
bool is_reachable(uint64_t address, size_t bytes) {
  return machine().is_on_device(address, bytes) || machine().is_pinned(reinterpret_cast<const void*>(address), bytes);
}

bool is_reachable(const ringtune::PackList& list, const CompiledKernel& kernel) {
  for (uint32_t i = 0; i < list.size; ++i) {
    const ringtune::PackEntry& entry = list.entries[i];
    if (!is_reachable(entry.source, entry.elements * kernel.source_bytes) ||
        !is_reachable(entry.target, entry.elements * kernel.target_bytes)) {
      return false;
    }
  }
  return true;
}

void run(const CompiledKernel& kernel, const ringtune::PackList& list, const Launch& launch) {
  if (is_reachable(list, kernel)) {
    kernel.run(list, 0, launch.blocks[0], launch.threads[0]);
    if (machine().are_kernels_spoiled_.load()) {
      *reinterpret_cast<uint8_t*>(list.entries[0].target) ^= 1;
    }
  } else {
    machine().add_violation();
  }
}

}  // namespace

std::optional<size_t> Module::parameter_bytes(const std::string& kernel) const {
  const size_t entry = ptx.find(".entry " + kernel + "(");
  if (entry == std::string::npos) {
    return std::nullopt;
  }
  const std::string parameters = ptx.substr(entry, ptx.find(')', entry) - entry);
  static const std::regex one_parameter(R"([^(]*\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]\s*)");
  std::smatch match;
  return std::regex_match(parameters, match, one_parameter) ? std::optional(std::stoul(match[1])) : std::nullopt;
}

bool is_possible(const Launch& launch) {
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (launch.blocks[i] == 0 || launch.blocks[i] > kMaxBlocks[i] || launch.threads[i] == 0 ||
        launch.threads[i] > kMaxThreads[i]) {
      return false;
    }
    threads *= launch.threads[i];
  }
  return threads <= kMaxThreadsOfBlock && launch.shared_bytes <= kMaxSharedBytes;
}

bool is_ptx(const std::string& text) {
  size_t at = 0;
  while (at < text.size() && (text[at] == '\n' || text.compare(at, 2, "//") == 0)) {
    at = text.find('\n', at);
    at = at == std::string::npos ? text.size() : at + 1;
  }
  return text.compare(at, 9, ".version ") == 0;
}

}  // namespace standin

using namespace standin;

#define BEGIN(...)                                                    \
  if (const int result = machine().begin(__VA_ARGS__); result != 0) { \
    return result;                                                    \
  }

extern "C" {

int cuModuleLoadData(void** module, const void* image) {
  BEGIN("cuModuleLoadData")
  const std::string text = static_cast<const char*>(image);
  if (!is_ptx(text)) {
    return kInvalidImage;
  }
  auto loaded = std::make_shared<Module>(text);
  *module = loaded.get();
  const std::lock_guard lock(machine().mutex_);
  machine().modules_[loaded.get()] = std::move(loaded);
  return kSuccess;
}

// A GPU that still runs its kernels would go on in freed memory.
int cuModuleUnload(void* handle) {
  const int result = machine().begin("cuModuleUnload");
  const std::lock_guard lock(machine().mutex_);
  const auto found = machine().modules_.find(handle);
  if (found == machine().modules_.end()) {
    machine().add_violation();
    return kInvalidHandle;
  }
  if (found->second->waiting.load() > 0 && !machine().is_lost()) {
    machine().add_violation();
  }
  machine().modules_.erase(found);
  return result;
}

int cuModuleGetFunction(void** kernel, void* handle, const char* name) {
  BEGIN("cuModuleGetFunction")
  const std::lock_guard lock(machine().mutex_);
  const auto found = machine().modules_.find(handle);
  if (found == machine().modules_.end()) {
    return kInvalidHandle;
  }
  Module* const module = found->second.get();
  const CompiledKernel* const compiled = find_compiled(name);
  const std::optional<size_t> bytes = module->parameter_bytes(name);
  if (compiled == nullptr || !bytes) {
    return kNotFound;
  }
  if (*bytes != sizeof(ringtune::PackList) || *bytes > kMaxParameterBytes) {
    return kInvalidImage;  // the PTX is of another source
  }
  std::unique_ptr<LoadedKernel>& loaded = module->kernels[name];
  if (loaded == nullptr) {
    loaded = std::make_unique<LoadedKernel>(LoadedKernel{module, compiled});
  }
  *kernel = loaded.get();
  return kSuccess;
}

int cuLaunchKernel(void* handle, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void* stream, void** parameters,
                   void** extra) {
  BEGIN("cuLaunchKernel")
  const Launch launch{{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared_bytes};
  if (handle == nullptr) {
    return kInvalidHandle;
  }
  if (!is_possible(launch) || parameters == nullptr || extra != nullptr) {
    return kInvalidValue;
  }
  const CompiledKernel* const kernel = static_cast<const LoadedKernel*>(handle)->compiled;
  const std::shared_ptr<Module> module = static_cast<const LoadedKernel*>(handle)->module->shared_from_this();
  ringtune::PackList list;
  std::memcpy(&list, parameters[0], sizeof(list));
  module->waiting.fetch_add(1);
  machine().stream_of(stream)->add([=] {
    run(*kernel, list, launch);
    module->waiting.fetch_sub(1);
  });
  return kSuccess;
}

void standin_run_blocks(const char* kernel, const void* list, uint32_t first, uint32_t end) {
  find_compiled(kernel)->run(*static_cast<const ringtune::PackList*>(list), first, end, ringtune::kPackThreads);
}

}  // extern "C"
