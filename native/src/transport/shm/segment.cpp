// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segment.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "transport/shm/memory_budget.h"

namespace ringtune {
namespace {

constexpr uint64_t kMagic = 0x72696e6774756e33ULL;  // "ringtun3": changes with the layout

size_t blocks_offset() { return round_up(sizeof(SegmentHeader), kPage); }

size_t response_ring_offset(int local_size) {
  return blocks_offset() + round_up(sizeof(RankBlock) * static_cast<size_t>(local_size), kPage);
}

size_t request_rings_offset(int local_size) {
  return response_ring_offset(local_size) + round_up(ByteRing::footprint(kResponseRingBytes, local_size), kPage);
}

size_t request_ring_stride() { return round_up(ByteRing::footprint(kRequestRingBytes, 1), kPage); }

size_t stages_offset(int local_size) {
  return request_rings_offset(local_size) + request_ring_stride() * static_cast<size_t>(local_size);
}

// A rank's stage and its two posts.
size_t stage_stride() { return kStageBytes + 2 * kPostBytes + kStageStagger; }

Status system_error(const std::string& what, int error) {
  return {StatusCode::kConfigError, what + ": " + std::strerror(error)};
}

Status memory_error(int local_size, uint64_t needed_bytes, uint64_t available_bytes, const std::string& why) {
  return {
      StatusCode::kConfigError,
      "cannot allocate the shared memory of this host's " + std::to_string(local_size) + " ranks: it needs " +
          std::to_string(needed_bytes) + " bytes, " + std::to_string(available_bytes) + " bytes are available (" + why +
          "). It is a memfd, which takes main memory within the control group's limit, not /dev/shm: free memory, " +
          "raise the container's memory limit, or start fewer ranks on this host"};
}

Status allocation_error(int local_size, uint64_t needed_bytes, uint64_t available_bytes, int error) {
  if (error == EFBIG) {  // the limit of files counts for memory that is a file
    return {
        StatusCode::kConfigError,
        "cannot allocate the shared memory of this host's " + std::to_string(local_size) + " ranks: it is a memfd of " +
            std::to_string(needed_bytes) +
            " bytes, and the limit of a file's size does not allow that (File too large): raise it with ulimit -f, " +
            "in blocks of 1,024 bytes, or with ulimit -f unlimited"};
  }
  return memory_error(local_size, needed_bytes, available_bytes, std::strerror(error));
}

}  // namespace

size_t Segment::total_bytes(int local_size) {
  return round_up(stages_offset(local_size) + stage_stride() * static_cast<size_t>(local_size), kPage);
}

Status Segment::create(int local_size, int& fd) {
  if (local_size < 1 || local_size > kMaxRanksPerHost) {
    return {StatusCode::kConfigError,
            "a host takes 1 ... " + std::to_string(kMaxRanksPerHost) + " ranks, not " + std::to_string(local_size)};
  }
  const size_t bytes = total_bytes(local_size);
  // Asked for before it is taken: a control group that runs out of memory kills processes instead of refusing.
  const uint64_t available_bytes = MemoryBudget().available_bytes();
  if (available_bytes < bytes) {
    return memory_error(local_size, bytes, available_bytes, "too little is available");
  }
  fd = above_standard_streams(memfd_create("ringtune", MFD_CLOEXEC));
  if (fd < 0) {
    return system_error("cannot create shared memory (memfd_create)", errno);
  }
  const size_t arena_bytes = Arenas::largest_bytes(bytes, local_size);
  // Allocated now: a page that is missing later would be a SIGBUS in the middle of training.
  int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error == 0 && ftruncate(fd, static_cast<off_t>(bytes + Arenas::file_bytes(arena_bytes, local_size))) != 0) {
    error = errno;
  }
  if (error != 0) {
    close(fd);
    fd = -1;
    return allocation_error(local_size, bytes, available_bytes, error);
  }
  SegmentHeader header{};
  header.magic = kMagic;
  header.arena_bytes = arena_bytes;
  header.local_size = static_cast<uint32_t>(local_size);
  if (pwrite(fd, &header, offsetof(SegmentHeader, failure_state), 0) < 0) {
    const int write_error = errno;
    close(fd);
    fd = -1;
    return system_error("cannot write to shared memory", write_error);
  }
  return Status::ok_status();
}

Status Segment::map(int fd, int local_size, std::shared_ptr<Segment>& segment) {
  const size_t bytes = total_bytes(local_size);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return system_error("the shared-memory descriptor is not usable", errno);
  }
  if (static_cast<size_t>(info.st_size) < bytes) {
    return {StatusCode::kConfigError, "the shared memory has " + std::to_string(info.st_size) + " bytes, this version" +
                                          " needs " + std::to_string(bytes) + "; all ranks must run one version"};
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return system_error("cannot map " + std::to_string(bytes >> 20) + " MiB of shared memory", errno);
  }
  // Forked children (data loaders) must not reach, nor keep, the ranks' memory.
  madvise(base, bytes, MADV_DONTFORK);
  segment.reset(new Segment(static_cast<std::byte*>(base), local_size));
  if (segment->header().magic != kMagic || segment->header().local_size != static_cast<uint32_t>(local_size)) {
    segment.reset();
    return {StatusCode::kConfigError,
            "the shared memory was made by another version or for another number of ranks on this host"};
  }
  segment->arenas_ = Arenas::map(fd, bytes, segment->header().arena_bytes, local_size);
  return Status::ok_status();
}

Segment::~Segment() { munmap(base_, total_bytes(local_size_)); }

RankBlock& Segment::block(int rank) { return reinterpret_cast<RankBlock*>(base_ + blocks_offset())[rank]; }

ByteRing Segment::response_ring() {
  return {base_ + response_ring_offset(local_size_), kResponseRingBytes, local_size_};
}

ByteRing Segment::request_ring(int rank) {
  return {base_ + request_rings_offset(local_size_) + request_ring_stride() * static_cast<size_t>(rank),
          kRequestRingBytes, 1};
}

std::byte* Segment::stage(int rank) {
  return base_ + stages_offset(local_size_) + stage_stride() * static_cast<size_t>(rank);
}

std::byte* Segment::post(int rank, uint64_t number) { return stage(rank) + kStageBytes + number % 2 * kPostBytes; }

}  // namespace ringtune
