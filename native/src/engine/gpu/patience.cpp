// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/patience.h"

#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "transport/first_failure.h"

namespace ringtune {

Patience::Watch Patience::begin(const std::string& what) const {
  return [this, what, since_ns = now_ns()]() -> Status {
    if (const std::optional<Failure> failure = transport_.failure()) {
      return failure->status();
    }
    if (transport_.is_interrupted(since_ns)) {
      return give_up_interrupted(transport_);
    }
    const int64_t waited_ns = now_ns() - since_ns;
    return waited_ns <= timeout_ns_
               ? Status::ok_status()
               : Status(StatusCode::kCollectiveTimeout, "rank " + std::to_string(transport_.rank()) + " has waited " +
                                                            format_seconds(waited_ns) + " " + what + " (limit " +
                                                            format_seconds(timeout_ns_) + ", RINGTUNE_TIMEOUT_S)");
  };
}

Status Patience::explain(const Status& seen) const {
  const std::optional<Failure> better = await_better_news(transport_);
  return better ? better->status() : seen;
}

}  // namespace ringtune
