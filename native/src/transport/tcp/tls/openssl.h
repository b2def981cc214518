// SPDX-License-Identifier: Apache-2.0
// OpenSSL, loaded where a job asks for TLS.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/tcp/tls/openssl_abi.h"

namespace ringtune {

// Finds libssl, once for the process: the one that it has loaded already, else 3 before 1.1. ConfigError with the
// package to install.
Status load_openssl(const openssl::Functions*& functions);

// Reason of the newest error of this thread's queue, in OpenSSL's words.
std::string openssl_reason(const openssl::Functions& functions);

}  // namespace ringtune
