// SPDX-License-Identifier: Apache-2.0
// Exchange of row counts before rows move whose number differs between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/collective_context.h"
#include "collectives/gathered.h"

namespace ringtune {

// Every rank's numbers to every rank, in rank order. All ranks bring equally many.
Status gather_numbers(const CollectiveContext& context, std::span<const int64_t> own, std::vector<int64_t>& all,
                      size_t chunk_bytes);

// Finds memory for `result.rows`, and the parts of it that take each rank's rows.
Status allocate_rows(Gathered& result, size_t row_bytes, std::vector<MutableByteSpan>& parts);

}  // namespace ringtune
