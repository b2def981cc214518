// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/arenas.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "transport/shm/atomics.h"

namespace ringtune {
namespace {

// Stagger, as between stages: arenas that lie a multiple of a large power of two apart evict each other from the
// caches.
constexpr size_t kArenaStagger = kPage + 5 * kCacheLine;

size_t arena_stride(size_t arena_bytes) { return arena_bytes + kArenaStagger; }

// Keeps the other processes that have the file from taking memory of it; ends with the process at the latest.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) { set(F_WRLCK); }
  ~FileLock() { set(F_UNLCK); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  void set(int16_t type) const {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    // Where it cannot be had, memory that runs out is still an error, of the rank that asks last.
    while (fcntl(fd_, F_SETLKW, &lock) != 0 && errno == EINTR) {
    }
  }

  int fd_;
};

Status memory_error(size_t needed_bytes, uint64_t available_bytes, const std::string& why) {
  return {StatusCode::kConfigError, "cannot allocate " + std::to_string(needed_bytes) +
                                        " bytes of registered memory: " + std::to_string(available_bytes) +
                                        " bytes are available (" + why + ")"};
}

}  // namespace

size_t Arenas::largest_bytes(size_t segment_bytes, int local_size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kMaxArenaBytes;
  }
  // A file past the limit is a signal that ends the process.
  const size_t left = limit.rlim_cur - std::min<size_t>(limit.rlim_cur, segment_bytes);
  const size_t share = left / static_cast<size_t>(local_size);
  return std::min(kMaxArenaBytes, (share - std::min(share, 2 * kArenaStagger)) / kPage * kPage);
}

size_t Arenas::file_bytes(size_t arena_bytes, int local_size) {
  return arena_bytes == 0 ? 0 : round_up(arena_stride(arena_bytes) * static_cast<size_t>(local_size), kPage);
}

std::shared_ptr<Arenas> Arenas::map(int fd, size_t segment_bytes, size_t arena_bytes, int local_size) {
  const size_t bytes = file_bytes(arena_bytes, local_size);
  if (bytes == 0 || arena_bytes > largest_bytes(segment_bytes, local_size)) {
    return nullptr;
  }
  const int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnDescriptor);
  if (own_fd < 0) {
    return nullptr;
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, own_fd,
                    static_cast<off_t>(segment_bytes));
  if (base == MAP_FAILED) {
    close(own_fd);
    return nullptr;
  }
  madvise(base, bytes, MADV_DONTDUMP);  // every rank's core would hold every rank's tensors
  return std::shared_ptr<Arenas>(
      new Arenas(static_cast<std::byte*>(base), own_fd, segment_bytes, arena_bytes, local_size));
}

Arenas::~Arenas() {
  seal();
  munmap(base_, file_bytes(arena_bytes_, local_size_));
}

void Arenas::seal() {
  if (const int fd = fd_.exchange(-1); fd >= 0) {
    close(fd);
  }
}

std::byte* Arenas::arena(int rank) const { return base_ + arena_stride(arena_bytes_) * static_cast<size_t>(rank); }

Status Arenas::commit(int rank, size_t first, size_t last, const MemoryBudget& budget) {
  const size_t needed_bytes = last - first;
  const int fd = fd_.load();
  if (fd < 0) {
    return {StatusCode::kShutDown, "the engine was shut down before registered memory was asked for"};
  }
  const FileLock lock(fd);
  const uint64_t available_bytes = budget.available_bytes();
  if (available_bytes < needed_bytes) {
    return memory_error(needed_bytes, available_bytes, "too little is available");
  }
  const size_t offset = file_offset_ + static_cast<size_t>(arena(rank) - base_) + first;
  const int error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(needed_bytes));
  return error == 0 ? Status::ok_status() : memory_error(needed_bytes, available_bytes, std::strerror(error));
}

}  // namespace ringtune
