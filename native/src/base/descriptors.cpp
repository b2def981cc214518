// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace ringtune {

int above_standard_streams(int fd) {
  if (fd < 0 || fd >= kFirstOwnDescriptor) {
    return fd;
  }
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnDescriptor);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

}  // namespace ringtune
