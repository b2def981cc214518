// SPDX-License-Identifier: Apache-2.0
// Counts calls by which an MPI copies another process's memory and yields its core; loaded before the C library.
#include <atomic>
#include <cstddef>

#include <dlfcn.h>
#include <sched.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace {

std::atomic<long> copies{0};
std::atomic<long> copied_bytes{0};
std::atomic<long> yields{0};

using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);
using Yield = int (*)();

}  // namespace

extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long parts, const iovec* remote,
                                    unsigned long remote_parts, unsigned long flags) noexcept {
  static const auto real = reinterpret_cast<Copy>(dlsym(RTLD_NEXT, "process_vm_readv"));
  ++copies;
  for (unsigned long part = 0; part < parts; ++part) {
    copied_bytes += static_cast<long>(local[part].iov_len);
  }
  return real(pid, local, parts, remote, remote_parts, flags);
}

extern "C" int sched_yield() noexcept {
  static const auto real = reinterpret_cast<Yield>(dlsym(RTLD_NEXT, "sched_yield"));
  ++yields;
  return real();
}

extern "C" long counted_copies() { return copies; }
extern "C" long counted_copied_bytes() { return copied_bytes; }
extern "C" long counted_yields() { return yields; }
