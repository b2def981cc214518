// SPDX-License-Identifier: Apache-2.0
// The first failure of a world, shared by all its ranks.
#pragma once

#include <string>

#include "base/status.h"

namespace ringtune {

inline constexpr int kNoCulprit = -1;

struct Failure {
  StatusCode code = StatusCode::kPeerLostError;
  int culprit_rank = kNoCulprit;
  std::string text;

  Status status() const { return {code, text}; }
};

}  // namespace ringtune
