// SPDX-License-Identifier: Apache-2.0
#include "device/nccl/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/half.h"

namespace ringtune {
namespace {

// Most answers come at once, or once NCCL's thread has begun; a communicator that is being made takes half a second.
constexpr int64_t kSpinNs = kNsPerMs / 4;
constexpr int64_t kFirstNapNs = kNsPerMs / 20;
// Type of elements that are moved and not computed with.
constexpr int kBytes = static_cast<int>(NcclType::kUInt8);
constexpr int64_t kMaxNapNs = kNsPerMs;

// The scalar in the type's own representation; it is a power of two, so that every type has it.
std::array<std::byte, sizeof(double)> scalar_of(NcclType type, double scale) {
  std::array<std::byte, sizeof(double)> bytes{};
  const auto put = [&bytes](auto value) { std::memcpy(bytes.data(), &value, sizeof(value)); };
  if (type == NcclType::kFloat64) {
    put(scale);
  } else if (type == NcclType::kBFloat16) {
    put(to_bfloat16(static_cast<float>(scale)));
  } else {
    put(static_cast<float>(scale));
  }
  return bytes;
}

}  // namespace

Status NcclCommunicator::make_id(const NcclLibrary& library, NcclUniqueId& id) {
  return library.check(library.functions().get_unique_id(&id), "ncclGetUniqueId", nullptr);
}

Status NcclCommunicator::begin(const NcclUniqueId& id, int rank, int world_size) {
  const NcclConfig config;
  return check(library_->functions().init_rank(&handle_, world_size, id, rank, &config), "ncclCommInitRankConfig");
}

Status NcclCommunicator::split_off(NcclCommunicator& whole, const NcclPart& part, const Watch& watch) {
  NcclConfig config;
  if (part.max_ctas > 0) {
    config.min_ctas = 1;
    config.max_ctas = part.max_ctas;
  }
  const int result = library_->functions().split(whole.handle_, part.color, part.key, &handle_, &config);
  if (Status s = whole.check(result, "ncclCommSplit"); !s.ok()) return s;
  if (Status s = whole.settle(watch); !s.ok()) {
    whole.abort();  // first: until then NCCL's thread may write this handle
    abort();
    return s;
  }
  if (handle_ == nullptr) {
    return {StatusCode::kDeviceError, "ncclCommSplit gave no communicator"};
  }
  return settle(watch);
}

Status NcclCommunicator::settle(const Watch& watch) {
  if (Status s = await_idle(watch); !s.ok()) return s;
  int ranks = 0;
  return check(library_->functions().count(handle_, &ranks), "ncclCommCount");
}

Status NcclCommunicator::await_idle(const Watch& watch) {
  const int64_t start_ns = now_ns();
  int64_t nap_ns = 0;
  while (true) {
    int state = kNcclSuccess;
    if (Status s = check(library_->functions().async_error(handle_, &state), "ncclCommGetAsyncError"); !s.ok()) {
      return s;
    }
    if (state != kNcclInProgress) {
      return check(state, "an operation");
    }
    if (Status s = watch(); !s.ok()) return s;
    if (now_ns() - start_ns < kSpinNs) {
      std::this_thread::yield();
      continue;
    }
    nap_ns = std::min(kMaxNapNs, std::max(kFirstNapNs, 2 * nap_ns));
    std::this_thread::sleep_for(std::chrono::nanoseconds(nap_ns));
  }
}

Status NcclCommunicator::error() {
  int state = kNcclSuccess;
  if (Status s = check(library_->functions().async_error(handle_, &state), "ncclCommGetAsyncError"); !s.ok()) return s;
  return check(state, "an operation");
}

Status NcclCommunicator::run_group(const std::function<Status()>& enqueue, const Watch& watch) {
  Status status = group_start();
  if (status.ok()) {
    status = enqueue();
  }
  const Status ended = group_end();
  if (!status.ok()) return status;
  if (!ended.ok()) return ended;
  return settle(watch);
}

Status NcclCommunicator::group_start() { return check(library_->functions().group_start(), "ncclGroupStart"); }

Status NcclCommunicator::group_end() { return check(library_->functions().group_end(), "ncclGroupEnd"); }

Status NcclCommunicator::allreduce(const NcclReduction& reduction, const NcclBuffers& buffers, NcclStream stream) {
  int op = 0;
  if (Status s = number_of(reduction, op); !s.ok()) return s;
  return check(library_->functions().allreduce(buffers.input, buffers.output, buffers.elements,
                                               static_cast<int>(reduction.type), op, handle_, stream),
               "ncclAllReduce");
}

Status NcclCommunicator::allreduce_each(const NcclReduction& reduction, std::span<const NcclBuffers> all,
                                        NcclStream stream) {
  for (const NcclBuffers& buffers : all) {
    if (Status s = allreduce(reduction, buffers, stream); !s.ok()) return s;
  }
  return Status::ok_status();
}

Status NcclCommunicator::reduce(const NcclReduction& reduction, const NcclBuffers& buffers, int root,
                                NcclStream stream) {
  int op = 0;
  if (Status s = number_of(reduction, op); !s.ok()) return s;
  return check(library_->functions().reduce(buffers.input, buffers.output, buffers.elements,
                                            static_cast<int>(reduction.type), op, root, handle_, stream),
               "ncclReduce");
}

Status NcclCommunicator::reduce_scatter(const NcclReduction& reduction, const NcclBuffers& buffers, NcclStream stream) {
  int op = 0;
  if (Status s = number_of(reduction, op); !s.ok()) return s;
  return check(library_->functions().reduce_scatter(buffers.input, buffers.output, buffers.elements,
                                                    static_cast<int>(reduction.type), op, handle_, stream),
               "ncclReduceScatter");
}

Status NcclCommunicator::broadcast(const NcclBuffers& buffers, int root, NcclStream stream) {
  return check(
      library_->functions().broadcast(buffers.input, buffers.output, buffers.elements, kBytes, root, handle_, stream),
      "ncclBroadcast");
}

Status NcclCommunicator::allgather(const NcclBuffers& buffers, NcclStream stream) {
  return check(
      library_->functions().allgather(buffers.input, buffers.output, buffers.elements, kBytes, handle_, stream),
      "ncclAllGather");
}

Status NcclCommunicator::send(std::span<const std::byte> data, int peer, NcclStream stream) {
  return check(library_->functions().send(data.data(), data.size(), kBytes, peer, handle_, stream), "ncclSend");
}

Status NcclCommunicator::receive(std::span<std::byte> data, int peer, NcclStream stream) {
  return check(library_->functions().receive(data.data(), data.size(), kBytes, peer, handle_, stream), "ncclRecv");
}

Status NcclCommunicator::close(const Watch& watch) {
  if (!is_open()) {
    return Status::ok_status();
  }
  Status status = check(library_->functions().finalize(handle_), "ncclCommFinalize");
  if (status.ok()) {
    status = await_idle(watch);
  }
  if (status.ok()) {
    status =
        library_->check(library_->functions().destroy(std::exchange(handle_, nullptr)), "ncclCommDestroy", nullptr);
    scaled_sums_.clear();
  }
  abort();
  return status;
}

void NcclCommunicator::abort() {
  if (is_open()) {
    // A handle whose abort fails is lost either way; the failure that led here is reported.
    library_->functions().abort(std::exchange(handle_, nullptr));
    scaled_sums_.clear();
  }
}

Status NcclCommunicator::check(int result, const char* function) { return library_->check(result, function, handle_); }

Status NcclCommunicator::number_of(const NcclReduction& reduction, int& op) {
  if (reduction.scale == 1) {
    op = static_cast<int>(reduction.op);
    return Status::ok_status();
  }
  const auto [known, is_new] = scaled_sums_.try_emplace({reduction.type, reduction.scale}, 0);
  if (is_new) {
    auto scalar = scalar_of(reduction.type, reduction.scale);
    const Status made =
        check(library_->functions().make_scaled_sum(&known->second, scalar.data(), static_cast<int>(reduction.type),
                                                    kNcclScalarOnHost, handle_),
              "ncclRedOpCreatePreMulSum");
    if (!made.ok()) {
      scaled_sums_.erase(known);
      return made;
    }
  }
  op = known->second;
  return Status::ok_status();
}

}  // namespace ringtune
