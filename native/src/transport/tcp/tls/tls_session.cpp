// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tls/tls_session.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <sys/socket.h>

#include "transport/tcp/tls/openssl.h"

namespace ringtune {
namespace {

constexpr size_t kRecordBytes = 16 << 10;  // the longest that TLS has
constexpr size_t kBindingBytes = 32;
constexpr std::string_view kBindingLabel = "EXPORTER-ringtune-proof";

// The library is loaded: there is a session.
const openssl::Functions& library() {
  const openssl::Functions* functions = nullptr;
  [[maybe_unused]] const Status status = load_openssl(functions);
  return *functions;
}

TlsSession& session_of(openssl::Bio* bio) { return *static_cast<TlsSession*>(library().BIO_get_data(bio)); }

bool is_not_now(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void TlsSession::describe_socket(const openssl::Functions& functions, openssl::BioMethod* method) {
  functions.BIO_meth_set_write(method, &write_socket);
  functions.BIO_meth_set_read(method, &read_socket);
  functions.BIO_meth_set_ctrl(method, &control_socket);
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, int fd, TlsRole role)
    : context_(std::move(context)), functions_(context_->functions()), fd_(fd) {
  ssl_ = functions_.SSL_new(context_->get());
  openssl::Bio* bio = functions_.BIO_new(context_->socket_method());
  functions_.BIO_set_data(bio, this);
  functions_.BIO_set_init(bio, 1);
  functions_.SSL_set_bio(ssl_, bio, bio);
  functions_.SSL_set_ex_data(ssl_, TlsContext::kIndex, const_cast<TlsContext*>(context_.get()));
  if (role == TlsRole::kClient) {
    functions_.SSL_set_connect_state(ssl_);
  } else {
    functions_.SSL_set_accept_state(ssl_);
  }
}

TlsSession::~TlsSession() { functions_.SSL_free(ssl_); }

// Each record goes at once. MSG_MORE, or one call for many records, keeps the peer from opening the first while the
// others are made: 16 MiB both ways at 5 Gbit/s took 68 and 62 ms in place of 47 (medians of 15).
int TlsSession::write_socket(openssl::Bio* bio, const char* bytes, int size) {
  TlsSession& self = session_of(bio);
  const ssize_t sent = send(self.fd_, bytes, static_cast<size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  return self.note(bio, sent, openssl::kBioWrite);
}

int TlsSession::read_socket(openssl::Bio* bio, char* bytes, int size) {
  TlsSession& self = session_of(bio);
  const ssize_t received = recv(self.fd_, bytes, static_cast<size_t>(size), MSG_DONTWAIT);
  self.is_closed_ = self.is_closed_ || received == 0;
  return self.note(bio, received, openssl::kBioRead);
}

long TlsSession::control_socket(openssl::Bio* bio, int command, long, void*) {
  if (command == openssl::kBioEof) {
    return session_of(bio).is_closed_ ? 1 : 0;
  }
  return command == openssl::kBioFlush ? 1 : 0;
}

int TlsSession::note(openssl::Bio* bio, ssize_t moved, int direction) {
  functions_.BIO_clear_flags(bio, openssl::kBioRead | openssl::kBioWrite | openssl::kBioRetry);
  if (moved >= 0) {
    return static_cast<int>(moved);
  }
  if (is_not_now(errno)) {
    functions_.BIO_set_flags(bio, direction | openssl::kBioRetry);
  } else if (!is_closed_ && socket_error_ == 0) {  // the first reason holds: OpenSSL's later attempts fail, too
    socket_error_ = errno;
  }
  return -1;
}

Status TlsSession::handshake(Handshake& state) {
  const std::lock_guard lock(mutex_);
  functions_.ERR_clear_error();
  const int result = functions_.SSL_do_handshake(ssl_);
  if (result == 1) {
    state = Handshake::kDone;
    const bool is_agreed = !context_->is_by_shared_key() || functions_.SSL_session_reused(ssl_) == 1;
    return is_agreed ? Status::ok_status() : Status(StatusCode::kConfigError, "the shared key was not used");
  }
  const Moved moved = stopped(result, 0);
  if (!moved.is_lost) {
    const bool is_reading = functions_.SSL_get_error(ssl_, result) == openssl::kErrorWantRead;
    state = is_reading ? Handshake::kWantsRead : Handshake::kWantsWrite;
    return Status::ok_status();
  }
  return refusal_.empty() ? Status(StatusCode::kPeerLostError, describe_loss(moved.error))
                          : Status(StatusCode::kConfigError, refusal_);
}

Moved TlsSession::try_send(ByteSpan bytes) {
  const std::lock_guard lock(mutex_);
  functions_.ERR_clear_error();
  size_t done = 0;
  while (done < bytes.size()) {
    const size_t size = std::min(kRecordBytes, bytes.size() - done);
    size_t written = 0;
    if (const int result = functions_.SSL_write_ex(ssl_, bytes.data() + done, size, &written); result != 1) {
      return stopped(result, done);
    }
    done += written;
    count_record();
  }
  return {done, false, 0};
}

Moved TlsSession::try_receive(MutableByteSpan bytes) {
  const std::lock_guard lock(mutex_);
  functions_.ERR_clear_error();
  size_t done = 0;
  while (done < bytes.size()) {
    size_t received = 0;
    if (const int result = functions_.SSL_read_ex(ssl_, bytes.data() + done, bytes.size() - done, &received);
        result != 1) {
      return stopped(result, done);
    }
    done += received;
  }
  return {done, false, 0};
}

// A loss is reported after the bytes before it: the next call finds it again.
Moved TlsSession::stopped(int result, size_t moved_bytes) {
  const int error = functions_.SSL_get_error(ssl_, result);
  if (moved_bytes > 0 || error == openssl::kErrorWantRead || error == openssl::kErrorWantWrite) {
    return {moved_bytes, false, 0};
  }
  if (is_closed_ || socket_error_ != 0 || error == openssl::kErrorZeroReturn) {
    return {0, true, socket_error_};
  }
  if (refusal_.empty()) {
    const long verified = functions_.SSL_get_verify_result(ssl_);
    refusal_ = verified == 0 ? openssl_reason(functions_) : functions_.X509_verify_cert_error_string(verified);
  }
  return {0, true, EBADMSG};
}

void TlsSession::count_record() {
  if (++sent_records_ >= context_->records_per_key()) {
    sent_records_ = 0;
    functions_.SSL_key_update(ssl_, openssl::kKeyUpdateNotRequested);
  }
}

bool TlsSession::has_buffered() {
  const std::lock_guard lock(mutex_);
  return functions_.SSL_has_pending(ssl_) == 1;
}

std::string TlsSession::refusal() {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

Status TlsSession::export_binding(Bytes& binding) {
  const std::lock_guard lock(mutex_);
  binding.resize(kBindingBytes);
  auto* out = reinterpret_cast<unsigned char*>(binding.data());
  const int result = functions_.SSL_export_keying_material(ssl_, out, binding.size(), kBindingLabel.data(),
                                                           kBindingLabel.size(), nullptr, 0, 0);
  return result == 1 ? Status::ok_status()
                     : Status(StatusCode::kConfigError, "TLS gives no secret: " + openssl_reason(functions_));
}

void TlsSession::move_to(int fd) {
  const std::lock_guard lock(mutex_);
  fd_ = fd;
}

}  // namespace ringtune
