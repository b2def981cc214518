// SPDX-License-Identifier: Apache-2.0
// Allreduces in which members of a group pair up: one order of operations, whatever the algorithm.
//
// *Pairwise order*: p members, numbered in rank order, of which q take part: the largest power of two up to p. The
// first 2 (p - q) members form pairs of neighbours; the odd one of a pair *folds* its partial result into the even
// one's and gets the result in the end. Those that take part are numbered anew, 0 ... q - 1, and at distance d = 1, 2,
// 4, ... the partial results of number v and of v + d, where v has bit d unset, are reduced, the lower number's first:
// a balanced binary tree over the members. The order is that of every element, so that neither chunks nor blocks nor
// fusion change a bit, and every algorithm here gives the bits of every other one; so does a hierarchical allreduce,
// which reduces the partial results of all hosts at once (`reduce_in_pairs`).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/element.h"
#include "collectives/reduce_kernels.h"
#include "transport/links.h"

namespace ringtune {

// Numbers of those that take part, of the members.
class PairwiseOrder {
 public:
  explicit PairwiseOrder(size_t members)  // at least two
      : members_(members), paired_(std::bit_floor(members)), folding_(members - paired_) {}

  size_t members() const { return members_; }
  size_t paired() const { return paired_; }
  // A member folds into its neighbour, or the neighbour into it.
  bool folds(size_t member) const { return member < 2 * folding_; }
  size_t number_of(size_t member) const { return folds(member) ? member / 2 : member - folding_; }
  size_t member_of(size_t number) const { return number < folding_ ? 2 * number : number + folding_; }

 private:
  size_t members_;
  size_t paired_;
  size_t folding_;
};

// Reduces the partial results of all members, which are used up, to the result.
void reduce_in_pairs(const Reduction& reduction, std::span<std::byte* const> partials, std::byte* target,
                     size_t elements);

// Members that exchange over links; `own` is this rank's place among them.
class PairwiseGroup {
 public:
  PairwiseGroup(Links& links, std::vector<int> ranks, int own)
      : links_(links), ranks_(std::move(ranks)), own_(static_cast<size_t>(own)), order_(ranks_.size()) {}

  size_t paired() const { return order_.paired(); }
  bool folds() const { return order_.folds(own_); }
  bool takes_part() const { return !folds() || own_ % 2 == 0; }
  size_t number() const { return order_.number_of(own_); }

  Status send_to_neighbour(ByteSpan out) { return links_.exchange(ranks_[own_ ^ 1], out, 0, {}); }
  Status receive_from_neighbour(MutableByteSpan in) { return links_.exchange(0, {}, ranks_[own_ ^ 1], in); }

  // Both at once; an empty side has no peer. Peers are numbers among those that take part.
  Status exchange(size_t to, ByteSpan out, size_t from, MutableByteSpan in) {
    return links_.exchange(rank_of(to), out, rank_of(from), in);
  }

 private:
  int rank_of(size_t number) const { return ranks_[order_.member_of(number)]; }

  Links& links_;
  std::vector<int> ranks_;
  size_t own_;
  PairwiseOrder order_;
};

// Elements of one call: this member's partial results, which are used up, and the memory that the algorithms need.
class PairwiseBlock {
 public:
  PairwiseBlock(const Reduction& reduction, std::byte* partial, std::byte* incoming, std::byte* result, size_t elements)
      : reduction_(reduction),
        partial_bytes_(element_bytes(accumulator_dtype(reduction.dtype))),
        stored_bytes_(element_bytes(reduction.dtype)),
        partial_(partial),
        incoming_(incoming),
        result_(result),
        elements_(elements) {}

  size_t elements() const { return elements_; }
  size_t partial_bytes() const { return partial_bytes_; }
  MutableByteSpan partial(size_t first, size_t count) const {
    return {partial_ + first * partial_bytes_, count * partial_bytes_};
  }
  MutableByteSpan incoming(size_t count) const { return {incoming_, count * partial_bytes_}; }
  MutableByteSpan result(size_t first, size_t count) const {
    return {result_ + first * stored_bytes_, count * stored_bytes_};
  }

  // Reduces the arrived partial results with the own ones from `first` on, in the order of the members' numbers.
  void add_incoming(size_t first, size_t count, bool is_own_first, ReductionOutput output) const {
    std::byte* own = partial(first, count).data();
    const std::array<const std::byte*, 2> both{is_own_first ? own : incoming_, is_own_first ? incoming_ : own};
    reduce(reduction_, {both, {}}, output, output == ReductionOutput::kResult ? result(first, count).data() : own,
           count);
  }

 private:
  const Reduction& reduction_;
  size_t partial_bytes_;
  size_t stored_bytes_;
  std::byte* partial_;
  std::byte* incoming_;  // room for as many elements as the block has
  std::byte* result_;
  size_t elements_;
};

// Between the members that take part: reduces the block, and leaves its result with each of them.
using PairwiseAlgorithm = Status (*)(PairwiseGroup& group, const PairwiseBlock& block);

// One file each.
Status double_recursively(PairwiseGroup& group, const PairwiseBlock& block);
Status halve_and_double(PairwiseGroup& group, const PairwiseBlock& block);
Status reduce_and_spread(PairwiseGroup& group, const PairwiseBlock& block);

}  // namespace ringtune
