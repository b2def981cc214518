// SPDX-License-Identifier: Apache-2.0
// Check of a response against the tensors that it asks for, before they move.
#pragma once

#include <span>
#include <string_view>

#include "engine/submissions/submission.h"
#include "wire/messages.h"

namespace ringtune {

// Reason for people why the tensors cannot move as the response says; empty if they can.
//
// The bytes of a control connection may be unprotected. A response that was changed on the way, and can still be read,
// must end the job with words: its chunks would be divided by zero, or go beyond the stage, a tensor of the host would
// be looked for on a GPU, and tensors that do not fit together would be left as they are.
std::string_view find_fault(const Response& response, std::span<const Submission> tensors);

}  // namespace ringtune
