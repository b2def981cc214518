// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
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

namespace {

// In a folder where everybody may make files, such as /tmp, a link may be somebody else's and lead to a file of ours.
bool is_shared_folder(const std::filesystem::path& folder) {
  struct stat info {};
  return ::stat(folder.empty() ? "." : folder.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0;
}

}  // namespace

TraceFile::~TraceFile() { close(); }

Status TraceFile::open(const std::string& path) {
  constexpr mode_t kReadableByAll = 0644;  // less the umask: a trace is made to be shown to others
  const bool is_shared = is_shared_folder(std::filesystem::path(path).parent_path());
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (is_shared ? O_NOFOLLOW : 0);
  const int fd = above_standard_streams(::open(path.c_str(), flags, kReadableByAll));
  if (fd < 0 && errno == ELOOP && is_shared) {
    return {StatusCode::kConfigError, "the timeline cannot be written to '" + path +
                                          "': it is a link in a folder that everybody may write to, and these are not "
                                          "followed; name a file in a folder of your own"};
  }
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
