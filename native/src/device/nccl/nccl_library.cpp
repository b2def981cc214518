// SPDX-License-Identifier: Apache-2.0
#include "device/nccl/nccl_library.h"

#include <cstring>
#include <iterator>

#include <dlfcn.h>

namespace ringtune {
namespace {

constexpr const char* kSoname = "libnccl.so.2";
// The first with all members of NcclConfig is 2.17; torch 2.1 brought 2.18, the oldest that is tested.
constexpr int kOldestVersion = 21800;

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string loader_text() {
  const char* text = dlerror();
  return text == nullptr ? "no reason is known" : text;
}

Status refuse(const std::string& reason) {
  return {StatusCode::kConfigError, "NCCL cannot be used: " + reason +
                                        "; install torch with CUDA (its wheels bring NCCL), or set "
                                        "RINGTUNE_GPU_OPERATIONS=host"};
}

void* open_library(const std::string& path) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  if (void* loaded = dlopen(kSoname, kFlags | RTLD_NOLOAD)) {
    return loaded;
  }
  return dlopen(path.empty() ? kSoname : path.c_str(), kFlags);
}

}  // namespace

Status NcclLibrary::load(const std::string& path, std::shared_ptr<const NcclLibrary>& library) {
  void* handle = open_library(path);
  if (handle == nullptr) {
    return refuse(loader_text());
  }
  const auto loaded = std::make_shared<NcclLibrary>();
  void* symbols[std::size(kNcclSymbols)];
  for (size_t i = 0; i < std::size(kNcclSymbols); ++i) {
    symbols[i] = dlsym(handle, kNcclSymbols[i]);
    if (symbols[i] == nullptr) {
      return refuse("it has no function " + std::string(kNcclSymbols[i]));
    }
  }
  std::memcpy(&loaded->functions_, symbols, sizeof(symbols));
  if (Status s = loaded->check(loaded->functions_.get_version(&loaded->version_), "ncclGetVersion", nullptr); !s.ok()) {
    return s;
  }
  if (loaded->version_ < kOldestVersion) {
    return refuse("version " + version_text(loaded->version_) + " is older than " + version_text(kOldestVersion));
  }
  library = loaded;
  return Status::ok_status();
}

std::string NcclLibrary::name() const { return "NCCL " + version_text(version_); }

Status NcclLibrary::check(int result, const char* function, NcclHandle communicator) const {
  if (result == kNcclSuccess || result == kNcclInProgress) {
    return Status::ok_status();
  }
  std::string text = name() + ": " + function + " failed: " + functions_.error_text(result);
  const char* last = functions_.last_error(communicator);
  if (last != nullptr && *last != '\0') {
    text += " (" + std::string(last) + ")";
  }
  return {StatusCode::kDeviceError, text};
}

}  // namespace ringtune
