// SPDX-License-Identifier: Apache-2.0
// The coordinator's watch over tensors that wait for ranks: a warning, then the end of the job, which names the ranks
// that are missed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/tensor_ledger.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/transport.h"

namespace ringtune {

struct StallLimits {
  int64_t stall_warn_ns;
  int64_t timeout_ns;
};

class StallWatch {
 public:
  StallWatch(Transport& transport, const Layout& layout, const TensorLedger& ledger, StallLimits limits,
             const Log& log);

  // Before the first round: the network, whose bytes on their way show that it was lost.
  void set_links(const Links* links) { links_ = links; }
  // A few times a second, and only while something waits.
  void look(int64_t now_ns);

 private:
  void watch_tensors(int64_t now_ns);
  void warn_of_stall(const LedgerEntry& overdue, int64_t now_ns);
  void fail_overdue(const std::vector<int>& missing, const std::string& what);
  void watch_departures();
  void fail_if_departed(const std::vector<int>& missing, const std::string& what);

  Transport& transport_;
  const Layout& layout_;
  const TensorLedger& ledger_;
  const StallLimits limits_;
  const Log& log_;
  const Links* links_ = nullptr;  // null in a world of one host
  int64_t next_look_ns_ = 0;
};

}  // namespace ringtune
