// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_session.h"

#include <dlfcn.h>

namespace ringtune {
namespace {

constexpr char kHowToBuild[] = "; build it again with `python -m ringtune.mpi_plugin` in the job's environment";

Status refuse(const std::string& file, const std::string& reason) {
  return {StatusCode::kConfigError, "the MPI transport's plugin " + file + " " + reason + kHowToBuild};
}

}  // namespace

MpiSession::~MpiSession() {
  if (session_ != nullptr) {
    plugin_->close(session_);
  }
}

Status MpiSession::open(const std::string& file, int communicator) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* reason = dlerror();
    return refuse(file, std::string("cannot be loaded: ") + (reason == nullptr ? "no reason is known" : reason));
  }
  const auto entry = reinterpret_cast<decltype(&ringtune_mpi_plugin)>(dlsym(library, "ringtune_mpi_plugin"));
  if (entry == nullptr) {
    return refuse(file, "is none: it has no entry ringtune_mpi_plugin");
  }
  const RingtuneMpiPlugin* plugin = entry();
  if (plugin->version != kRingtuneMpiPluginVersion) {
    return refuse(file, "has version " + std::to_string(plugin->version) + " of its interface, this engine needs " +
                            std::to_string(kRingtuneMpiPluginVersion));
  }
  if (plugin->open(communicator, &session_, text_, kTextBytes) != 0) {
    return refuse(file, text_);
  }
  plugin_ = plugin;
  return Status::ok_status();
}

bool MpiSession::start(int to, ByteSpan out, int from, MutableByteSpan in) {
  return plugin_->start(session_, to, out.data(), out.size(), from, in.data(), in.size(), text_, kTextBytes) == 0;
}

bool MpiSession::test(RingtuneMpiProgress& progress) {
  return plugin_->test(session_, &progress, text_, kTextBytes) == 0;
}

}  // namespace ringtune
