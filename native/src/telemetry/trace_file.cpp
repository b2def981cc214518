// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/descriptors.h"

namespace ringtune {

std::string trace_path_of(const std::string& path, int rank) {
  if (rank == 0) {
    return path;
  }
  std::filesystem::path own(path);
  const std::string suffix = own.extension().string();
  own.replace_extension();
  own += ".rank" + std::to_string(rank) + suffix;
  return own.string();
}

TraceFile::~TraceFile() { close(); }

Status TraceFile::open(const std::string& path) {
  constexpr mode_t kReadableByAll = 0644;
  const int fd = above_standard_streams(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kReadableByAll));
  if (fd < 0) {
    return {StatusCode::kConfigError, "the timeline cannot be written to '" + path +
                                          "': " + std::generic_category().message(errno) +
                                          "; name a file in a folder that exists and may be written to"};
  }
  fd_ = fd;
  path_ = path;
  bytes_ = 0;
  return Status::ok_status();
}

int TraceFile::append(std::string_view lines) {
  for (std::string_view left = lines; !left.empty();) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written >= 0) {
      left.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      const int error = errno;
      [[maybe_unused]] const int is_cut = ::ftruncate(fd_, bytes_);  // a device cannot be cut
      return error;
    }
  }
  bytes_ += static_cast<int64_t>(lines.size());
  return 0;
}

int TraceFile::close() {
  const int fd = std::exchange(fd_, -1);
  return fd >= 0 && ::close(fd) != 0 ? errno : 0;
}

}  // namespace ringtune
