// SPDX-License-Identifier: Apache-2.0
#include "transport/first_failure.h"

#include <chrono>
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

}  // namespace ringtune
