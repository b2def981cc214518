// SPDX-License-Identifier: Apache-2.0
#include "collectives/host_rates.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/config.h"
#include "collectives/link_movement.h"

namespace ringtune {
namespace {

// Meetings of a host at most. With half of the hosts slow, one host in thirty meets slow ones alone.
constexpr int kMaxMeetings = 5;
// Bytes of the first exchange; they grow until an exchange takes kExchangeNs and kLatencies times the latency.
constexpr size_t kMinBytes = 256 * kKiB;
constexpr size_t kMaxBytes = 8 * kMiB;
constexpr int64_t kExchangeNs = 40 * kNsPerMs;
constexpr int64_t kLatencies = 4;
// Exchanges of one size, the median of which counts: a peer may be late, and a link that has rested lets some bytes
// through at any rate.
constexpr size_t kRepeats = 5;

class Meeting {
 public:
  Meeting(Links& links, int peer) : links_(links), peer_(peer) {}

  Status run(uint64_t& bytes_per_s) {
    int64_t latency_ns = 0;
    if (Status s = time_typical(1, latency_ns); !s.ok()) return s;
    const int64_t enough_ns = std::max(kExchangeNs, kLatencies * latency_ns);
    size_t bytes = kMinBytes;
    int64_t elapsed_ns = 0;
    if (Status s = time(bytes, elapsed_ns); !s.ok()) return s;
    while (elapsed_ns < enough_ns && bytes < kMaxBytes) {
      bytes *= 2;
      if (Status s = time(bytes, elapsed_ns); !s.ok()) return s;
    }
    if (Status s = time_typical(bytes, elapsed_ns); !s.ok()) return s;
    const auto moving_ns = static_cast<double>(std::max<int64_t>(1, elapsed_ns - std::min(latency_ns, elapsed_ns / 2)));
    bytes_per_s = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(bytes) * kNsPerS / moving_ns));
    return Status::ok_status();
  }

 private:
  Status time_typical(size_t bytes, int64_t& elapsed_ns) {
    std::array<int64_t, kRepeats> times_ns;
    for (int64_t& time_ns : times_ns) {
      if (Status s = time(bytes, time_ns); !s.ok()) return s;
    }
    std::ranges::nth_element(times_ns, times_ns.begin() + kRepeats / 2);
    elapsed_ns = times_ns[kRepeats / 2];
    return Status::ok_status();
  }

  // Exchanges as many bytes with the peer. Both then take the longer of their times, which decides how they go on.
  Status time(size_t bytes, int64_t& elapsed_ns) {
    outgoing_.resize(std::max(outgoing_.size(), bytes));
    incoming_.resize(std::max(incoming_.size(), bytes));
    const int64_t start_ns = now_ns();
    if (Status s = exchange(ByteSpan(outgoing_.data(), bytes), MutableByteSpan(incoming_.data(), bytes)); !s.ok())
      return s;
    const int64_t own_ns = now_ns() - start_ns;
    int64_t their_ns = 0;
    if (Status s = exchange(ByteSpan(reinterpret_cast<const std::byte*>(&own_ns), sizeof(own_ns)),
                            MutableByteSpan(reinterpret_cast<std::byte*>(&their_ns), sizeof(their_ns)));
        !s.ok())
      return s;
    elapsed_ns = std::max(own_ns, their_ns);
    return Status::ok_status();
  }

  Status exchange(ByteSpan out, MutableByteSpan in) { return links_.exchange(peer_, out, peer_, in); }

  Links& links_;
  int peer_;
  Bytes outgoing_;
  Bytes incoming_;
};

// Hosts i and j meet in the round (i + j) mod p, so that no host meets two at once.
Status meet_hosts(const CollectiveContext& context, uint64_t& bytes_per_s) {
  const Layout& layout = context.layout;
  const int hosts = layout.host_count();
  for (int round = 0; round < std::min(hosts, kMaxMeetings); ++round) {
    const int other = (round - layout.host() + hosts) % hosts;
    if (other == layout.host()) continue;
    uint64_t rate = 0;
    Meeting meeting(*context.links, layout.ranks_of(other)[static_cast<size_t>(layout.local_rank())]);
    if (Status s = meeting.run(rate); !s.ok()) return s;
    bytes_per_s = std::max(bytes_per_s, rate);
  }
  return Status::ok_status();
}

}  // namespace

Status measure_host_rates(const CollectiveContext& context, std::vector<uint64_t>& rates) {
  const Layout& layout = context.layout;
  rates.assign(static_cast<size_t>(layout.host_count()), 0);
  uint64_t own_rate = 0;
  if (layout.host_count() > 1 && layout.local_rank() < layout.smallest_local_size()) {
    if (Status s = meet_hosts(context, own_rate); !s.ok()) return s;
  }
  std::vector<uint64_t> all(static_cast<size_t>(layout.world_size()), own_rate);
  if (layout.host_count() > 1) {
    const Bytes own(reinterpret_cast<const std::byte*>(&own_rate), reinterpret_cast<const std::byte*>(&own_rate + 1));
    const MutableByteSpan gathered(reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof(uint64_t));
    if (Status s = gather_few_over_links(context, own, gathered); !s.ok()) return s;
  }
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    rates[static_cast<size_t>(layout.host_of(rank))] += all[static_cast<size_t>(rank)];
  }
  return Status::ok_status();
}

}  // namespace ringtune
