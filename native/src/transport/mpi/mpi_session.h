// SPDX-License-Identifier: Apache-2.0
// The MPI transport's plugin, loaded, with a communicator opened in it.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "transport/mpi/plugin_abi.h"

namespace ringtune {

class MpiSession {
 public:
  MpiSession() = default;
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // Loads the plugin's file and opens the communicator (Fortran handle); once. The library stays loaded for good.
  Status open(const std::string& file, int communicator);

  // Same as in RingtuneMpiPlugin; a failure's text is in `error()`.
  bool start(int to, ByteSpan out, int from, MutableByteSpan in);
  bool test(RingtuneMpiProgress& progress);
  void cancel() { plugin_->cancel(session_); }
  void abandon() { plugin_->abandon(session_); }

  std::string error() const { return text_; }

 private:
  static constexpr size_t kTextBytes = 1024;

  const RingtuneMpiPlugin* plugin_ = nullptr;
  RingtuneMpiSession* session_ = nullptr;
  char text_[kTextBytes] = "";
};

}  // namespace ringtune
