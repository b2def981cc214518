// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tls/openssl.h"

#include <array>
#include <type_traits>

#include <dlfcn.h>

namespace ringtune {
namespace {

constexpr std::array<const char*, 2> kSonames{"libssl.so.3", "libssl.so.1.1"};

Status refuse(const std::string& reason) {
  return {StatusCode::kConfigError,
          "TLS needs OpenSSL 1.1.1 or newer: " + reason +
              "; install the package libssl3 (Debian, Ubuntu) or openssl-libs (Fedora, RHEL), or set RINGTUNE_TLS=0"};
}

std::string loader_text() {
  const char* text = dlerror();
  return text == nullptr ? "no reason is known" : text;
}

// Never closed: libcrypto has handlers that run at the process's end.
void* open_library(std::string& reason) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  for (const char* soname : kSonames) {
    if (void* loaded = dlopen(soname, kFlags | RTLD_NOLOAD)) {
      return loaded;
    }
  }
  for (const char* soname : kSonames) {
    if (void* loaded = dlopen(soname, kFlags)) {
      return loaded;
    }
    reason += (reason.empty() ? "" : "; ") + loader_text();
  }
  return nullptr;
}

struct Library {
  openssl::Functions functions;
  Status status;
};

Library load() {
  Library loaded;
  std::string reason;
  void* library = open_library(reason);
  if (library == nullptr) {
    loaded.status = refuse(reason);
    return loaded;
  }
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing.empty()) {
      missing = name;
    }
  };
#define RINGTUNE_OPENSSL_FIND(result, name, parameters) find(#name, loaded.functions.name);
  RINGTUNE_OPENSSL_FUNCTIONS(RINGTUNE_OPENSSL_FIND)
#undef RINGTUNE_OPENSSL_FIND
  if (!missing.empty()) {
    loaded.status = refuse("the libssl here has no " + missing);
  } else if (loaded.functions.OpenSSL_version_num() < openssl::kOldestVersion) {
    loaded.status = refuse("the libssl here is older");
  }
  return loaded;
}

}  // namespace

Status load_openssl(const openssl::Functions*& functions) {
  static const Library library = load();
  functions = &library.functions;
  return library.status;
}

std::string openssl_reason(const openssl::Functions& functions) {
  const unsigned long code = functions.ERR_peek_last_error();
  const char* text = code == 0 ? nullptr : functions.ERR_reason_error_string(code);
  return text == nullptr ? "no reason is known" : text;
}

}  // namespace ringtune
