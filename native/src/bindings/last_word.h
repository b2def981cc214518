// SPDX-License-Identifier: Apache-2.0
// Last message of a process on a connection, by its exit code, which is known only after the interpreter has ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tls/tls_session.h"

namespace ringtune {

// Number of exit codes that the kernel keeps.
inline constexpr size_t kExitCodes = 256;

// Takes over a connected socket, with its TLS session or null for clear text. At the end of this process, by `exit` and
// not by a signal, sends the word of its exit code, an empty one being none, and waits shortly for the peer to close
// the connection. A forked child sends no word.
//
// Requires `words.size() == kExitCodes`.
void say_at_exit(int fd, std::vector<std::string> words, std::shared_ptr<TlsSession> tls);

}  // namespace ringtune
