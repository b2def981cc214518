// SPDX-License-Identifier: Apache-2.0
// TLS over one socket that never blocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <sys/types.h>

#include "base/bytes.h"
#include "base/status.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tls/tls_context.h"

namespace ringtune {

enum class TlsRole : uint8_t { kClient, kServer };

// Any thread may call any method.
class TlsSession {
 public:
  enum class Handshake : uint8_t { kDone, kWantsRead, kWantsWrite };

  // Tells OpenSSL how a session's socket is read and written.
  static void describe_socket(const openssl::Functions& functions, openssl::BioMethod* method);

  // The descriptor stays the caller's.
  TlsSession(std::shared_ptr<const TlsContext> context, int fd, TlsRole role);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Goes on with the handshake as far as the socket lets it. ConfigError if the ends cannot agree or one does not hold
  // the keys; PeerLostError if the connection ended.
  Status handshake(Handshake& state);

  // The functions of `socket.h`, by TLS; EBADMSG is the error of bytes that TLS refuses. Bytes that a send has not
  // taken must be the first that the next one offers.
  Moved try_send(ByteSpan bytes);
  Moved try_receive(MutableByteSpan bytes);
  // True if bytes can be received although the socket may have none.
  bool has_buffered();
  // Reason for which TLS has refused bytes; empty as long as it has not.
  std::string refusal();

  // A secret of this connection alone, which both ends know: proofs over it hold on no other connection.
  Status export_binding(Bytes& binding);
  // The same connection under another descriptor.
  void move_to(int fd);

 private:
  static int write_socket(openssl::Bio* bio, const char* bytes, int size);
  static int read_socket(openssl::Bio* bio, char* bytes, int size);
  static long control_socket(openssl::Bio* bio, int command, long number, void* argument);

  // The functions below: under the lock.
  int note(openssl::Bio* bio, ssize_t moved, int direction);
  // After a call that has moved no byte: how it stands.
  Moved stopped(int result, size_t moved_bytes);
  void count_record();

  const std::shared_ptr<const TlsContext> context_;
  const openssl::Functions& functions_;

  // Guards the members below. Held over system calls that do not block; no other lock is taken under it.
  std::mutex mutex_;
  openssl::Ssl* ssl_;
  int fd_;
  bool is_closed_ = false;  // the peer closed its end
  int socket_error_ = 0;
  uint64_t sent_records_ = 0;  // number of records under the present key
  std::string refusal_;
};

// Sessions by descriptor; a socket that has none carries clear text.
using TlsSessions = std::map<int, std::shared_ptr<TlsSession>>;

inline TlsSession* tls_of(const TlsSessions& sessions, int fd) {
  if (sessions.empty()) {
    return nullptr;
  }
  const auto found = sessions.find(fd);
  return found == sessions.end() ? nullptr : found->second.get();
}

// Send and receive by TLS where there is a session.
inline Moved try_send(int fd, TlsSession* tls, ByteSpan bytes) {
  return tls == nullptr ? try_send(fd, bytes) : tls->try_send(bytes);
}
inline Moved try_receive(int fd, TlsSession* tls, MutableByteSpan bytes) {
  return tls == nullptr ? try_receive(fd, bytes) : tls->try_receive(bytes);
}

}  // namespace ringtune
