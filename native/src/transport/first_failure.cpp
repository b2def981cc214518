// SPDX-License-Identifier: Apache-2.0
#include "transport/first_failure.h"

#include <chrono>
#include <string>
#include <thread>

#include "base/clock.h"

namespace ringtune {
namespace {

constexpr int64_t kBetterNewsNs = 300 * kNsPerMs;
constexpr auto kBetterNewsLook = std::chrono::milliseconds(2);

}  // namespace

std::optional<Failure> await_better_news(const Transport& transport) {
  const int64_t limit_ns = now_ns() + kBetterNewsNs;
  std::optional<Failure> failure = transport.failure();
  while (!failure && now_ns() < limit_ns) {
    std::this_thread::sleep_for(kBetterNewsLook);
    failure = transport.failure();
  }
  return failure;
}

Status first_failure(Transport& transport, const Failure& own) {
  transport.fail(own);
  return transport.failure().value_or(own).status();
}

Status give_up_interrupted(Transport& transport) {
  return first_failure(transport, {StatusCode::kPeerLostError, transport.rank(),
                                   "rank " + std::to_string(transport.rank()) +
                                       " was interrupted (Ctrl-C), or shut down, within a collective in which nothing"
                                       " moved, and left it; see what keeps the other ranks. Only shutdown() is usable"
                                       " now"});
}

}  // namespace ringtune
