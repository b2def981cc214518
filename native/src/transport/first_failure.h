// SPDX-License-Identifier: Apache-2.0
// Attribution of a failure to the rank that failed first: a rank that sees its neighbour gone or stuck lets those speak
// first that may know more.
//
// A rank that died is named by those that watch it, and one that is silent by those that listen to it; the errors of
// its neighbours follow, and would name the wrong rank.
#pragma once

#include <optional>

#include "base/status.h"
#include "transport/failure.h"
#include "transport/transport.h"

namespace ringtune {

// Waits a moment at most for another rank's report.
std::optional<Failure> await_better_news(const Transport& transport);

// Ends the world with this rank's own failure. Returns the failure that came first, which may be another.
Status first_failure(Transport& transport, const Failure& own);

// Ends the world because this rank gives up a collective; see `Transport::is_interrupted`.
Status give_up_interrupted(Transport& transport);

}  // namespace ringtune
