// SPDX-License-Identifier: Apache-2.0
// Broadcast, chunk by chunk: down a tree of one rank per host, and from each of them to its host through shared memory.
#include "collectives/broadcast.h"

#include "collectives/host_movement.h"

namespace ringtune {
namespace {

// The binomial tree of hosts. Counted from the root's, host v hears from v without its lowest bit, and tells v plus
// each power of two below that bit.
class HostTree {
 public:
  HostTree(const CollectiveContext& context, int root_rank)
      : context_(context),
        root_rank_(root_rank),
        hosts_(context.layout.host_count()),
        number_((context.layout.host() - context.layout.host_of(root_rank) + hosts_) % hosts_) {}

  // The rank of this host that is in the tree.
  int speaker() const { return speaker_of(number_); }

  // Gets the bytes from above, unless this is the root, and passes them on.
  Status pass_down(MutableByteSpan data) const {
    const int lowest_bit = number_ & -number_;
    if (number_ != 0) {
      if (Status s = context_.links->exchange(0, {}, speaker_of(number_ - lowest_bit), data); !s.ok()) return s;
    }
    for (int bit = number_ == 0 ? first_bit() : lowest_bit / 2; bit > 0; bit /= 2) {
      if (number_ + bit < hosts_) {
        if (Status s = context_.links->exchange(speaker_of(number_ + bit), data, 0, {}); !s.ok()) return s;
      }
    }
    return Status::ok_status();
  }

 private:
  // Of the host that has the number, counted from the root's.
  int speaker_of(int number) const {
    const int host = (number + context_.layout.host_of(root_rank_)) % hosts_;
    return number == 0 ? root_rank_ : context_.layout.ranks_of(host).front();
  }

  int first_bit() const {
    int bit = 1;
    while (bit < hosts_) {
      bit *= 2;
    }
    return bit;
  }

  const CollectiveContext& context_;
  int root_rank_;
  int hosts_;
  int number_;
};

}  // namespace

Status broadcast(const BroadcastTask& task) {
  const HostTree tree(task.context, task.root_rank);
  const MutableByteSpan data(task.data, task.bytes);
  const auto fetch = [&](const ByteRange& range) { return tree.pass_down(data.subspan(range.offset, range.bytes)); };
  const int local_root = task.context.layout.local_rank_of(tree.speaker());
  return broadcast_on_host(task.context.stage, local_root, data, task.chunk_bytes, fetch);
}

}  // namespace ringtune
