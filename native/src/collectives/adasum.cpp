// SPDX-License-Identifier: Apache-2.0
// Ranks combine their vectors in pairs, at distance 1, 2, 4, ...: both of a pair compute the same, the lower rank's
// vector first, so that at the end all ranks have the same bits. Where the number of ranks is no power of two, each
// rank beyond the largest one below it gives its vector to a partner before, and gets the result after.
#include "collectives/adasum.h"

#include <array>
#include <bit>

#include "collectives/adasum_kernels.h"
#include "collectives/aligned_buffer.h"
#include "collectives/element.h"
#include "collectives/host_movement.h"

namespace ringtune {
namespace {

constexpr int kNobody = -1;

class Adasum {
 public:
  explicit Adasum(const AdasumTask& task)
      : task_(task),
        context_(task.context),
        rank_(context_.rank()),
        paired_(static_cast<int>(std::bit_floor(static_cast<unsigned>(context_.world_size())))),
        accumulator_(accumulator_dtype(task.reduction.dtype)),
        bytes_(task.elements * element_bytes(accumulator_)) {}

  Status run() {
    if (Status s = prepare(); !s.ok()) return s;
    const std::array<const std::byte*, 1> input{task_.input};
    reduce(task_.reduction, {{}, input}, ReductionOutput::kPartial, own_, task_.elements);
    if (Status s = fold(); !s.ok()) return s;
    for (int distance = 1; distance < paired_; distance *= 2) {
      const int partner = is_extra() ? kNobody : rank_ ^ distance;
      if (Status s = exchange(partner, partner, peer_); !s.ok()) return s;
      combine_with(partner);
    }
    if (Status s = unfold(); !s.ok()) return s;
    const std::array<const std::byte*, 1> combined{own_};
    reduce(task_.reduction, {combined, {}}, ReductionOutput::kResult, task_.output, task_.elements);
    return Status::ok_status();
  }

 private:
  // The output itself holds the own vector where it has the accumulator's type.
  Status prepare() {
    const bool is_converted = accumulator_ != task_.reduction.dtype;
    if (Status s = scratch_.allocate(bytes_ * (is_converted ? 2 : 1)); !s.ok()) return s;
    peer_ = scratch_.data();
    own_ = is_converted ? scratch_.data() + bytes_ : task_.output;
    return Status::ok_status();
  }

  bool is_extra() const { return rank_ >= paired_; }
  // The extra rank of a paired one, the paired rank of an extra one.
  int fold_partner() const {
    const int partner = is_extra() ? rank_ - paired_ : rank_ + paired_;
    return partner < context_.world_size() ? partner : kNobody;
  }

  Status fold() {
    if (paired_ == context_.world_size()) {
      return Status::ok_status();
    }
    const int partner = fold_partner();
    if (Status s = is_extra() ? exchange(partner, kNobody, peer_) : exchange(kNobody, partner, peer_); !s.ok()) {
      return s;
    }
    combine_with(is_extra() ? kNobody : partner);
    return Status::ok_status();
  }

  Status unfold() {
    if (paired_ == context_.world_size()) {
      return Status::ok_status();
    }
    return is_extra() ? exchange(kNobody, fold_partner(), own_) : exchange(fold_partner(), kNobody, own_);
  }

  void combine_with(int partner) {
    if (partner != kNobody) {
      adasum_combine(accumulator_, own_, peer_, rank_ < partner, task_.elements);
    }
  }

  // Sends the own vector and receives another one. In one host every rank calls it: vectors go through the stages.
  Status exchange(int to, int from, std::byte* target) {
    const ByteSpan own(own_, bytes_);
    const MutableByteSpan in(target, from == kNobody ? 0 : bytes_);
    if (context_.is_one_host()) {
      return read_from_peer(context_.stage, own, from, in, task_.chunk_bytes);
    }
    return context_.links->exchange(to, to == kNobody ? ByteSpan() : own, from, in);
  }

  const AdasumTask& task_;
  CollectiveContext& context_;
  int rank_;
  int paired_;  // ranks that combine in pairs: the largest power of two
  DataType accumulator_;
  size_t bytes_;
  AlignedBuffer scratch_;
  std::byte* own_ = nullptr;
  std::byte* peer_ = nullptr;
};

}  // namespace

Status adasum(const AdasumTask& task) { return Adasum(task).run(); }

}  // namespace ringtune
