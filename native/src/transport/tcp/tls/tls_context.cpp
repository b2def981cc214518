// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tls/tls_context.h"

#include <array>
#include <string_view>
#include <utility>

#include "transport/tcp/tls/openssl.h"
#include "transport/tcp/tls/tls_session.h"

namespace ringtune {
namespace {

constexpr std::string_view kIdentity = "ringtune";
// Both with SHA-256, which is a shared key's hash. The first is the fastest where the processor has instructions for
// it.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kSharedCipher{0x13, 0x01};  // TLS_AES_128_GCM_SHA256

const unsigned char* identity_bytes() { return reinterpret_cast<const unsigned char*>(kIdentity.data()); }

Status refuse(const std::string& text) { return {StatusCode::kConfigError, text}; }

// A key that asks for a password would stop the rank at a prompt.
int give_no_password(char*, int, int, void*) { return -1; }

const TlsContext* context_of(const openssl::Ssl* ssl) {
  const openssl::Functions* functions = nullptr;
  if (!load_openssl(functions).ok()) {
    return nullptr;
  }
  return static_cast<const TlsContext*>(functions->SSL_get_ex_data(ssl, TlsContext::kIndex));
}

int offer_shared_key(openssl::Ssl* ssl, const openssl::Digest*, const unsigned char** identity, size_t* identity_size,
                     openssl::Session** session) {
  const TlsContext* context = context_of(ssl);
  *session = context == nullptr ? nullptr : context->new_shared_session(ssl);
  *identity = identity_bytes();
  *identity_size = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int find_shared_key(openssl::Ssl* ssl, const unsigned char* identity, size_t identity_size,
                    openssl::Session** session) {
  const std::string_view offered(reinterpret_cast<const char*>(identity), identity_size);
  const TlsContext* context = offered == kIdentity ? context_of(ssl) : nullptr;
  *session = context == nullptr ? nullptr : context->new_shared_session(ssl);
  return 1;  // without a session: no key of that name
}

}  // namespace

Status TlsContext::create(TlsKeys keys, std::shared_ptr<const TlsContext>& context, uint64_t records_per_key) {
  const std::shared_ptr<TlsContext> made(new TlsContext(std::move(keys), records_per_key));
  if (Status s = load_openssl(made->functions_); !s.ok()) return s;
  if (Status s = made->initialize(); !s.ok()) return s;
  context = made;
  return Status::ok_status();
}

TlsContext::~TlsContext() {
  if (context_ != nullptr) {
    functions_->SSL_CTX_free(context_);
  }
  if (socket_method_ != nullptr) {
    functions_->BIO_meth_free(socket_method_);
  }
}

Status TlsContext::initialize() {
  const openssl::Functions& f = *functions_;
  f.ERR_clear_error();
  socket_method_ = f.BIO_meth_new(f.BIO_get_new_index() | openssl::kBioSourceSink, "ringtune socket");
  context_ = f.SSL_CTX_new(f.TLS_method());
  if (socket_method_ == nullptr || context_ == nullptr ||
      f.SSL_CTX_ctrl(context_, openssl::kSetMinProtocol, openssl::kTls13, nullptr) != 1 ||
      f.SSL_CTX_set_ciphersuites(context_, kCiphers) != 1) {
    return refuse("OpenSSL cannot speak TLS 1.3: " + openssl_reason(f) + "; see its own configuration");
  }
  TlsSession::describe_socket(f, socket_method_);
  f.SSL_CTX_ctrl(context_, openssl::kSetMode, openssl::kModes, nullptr);
  f.SSL_CTX_ctrl(context_, openssl::kSetSessionCacheMode, 0, nullptr);
  f.SSL_CTX_set_num_tickets(context_, 0);  // no session is resumed, and a readable socket has the application's bytes
  if (is_by_shared_key()) {
    use_shared_key();
    return Status::ok_status();
  }
  return use_files();
}

// A server without a certificate can do without the key no handshake, and a client takes no certificate: there is no
// authority.
void TlsContext::use_shared_key() {
  functions_->SSL_CTX_set_session_id_context(context_, identity_bytes(), kIdentity.size());
  functions_->SSL_CTX_set_verify(context_, openssl::kVerifyPeer, nullptr);
  functions_->SSL_CTX_set_psk_use_session_callback(context_, &offer_shared_key);
  functions_->SSL_CTX_set_psk_find_session_callback(context_, &find_shared_key);
}

Status TlsContext::use_files() {
  const openssl::Functions& f = *functions_;
  f.SSL_CTX_set_default_passwd_cb(context_, &give_no_password);
  if (f.SSL_CTX_use_certificate_chain_file(context_, keys_.certificate_file.c_str()) != 1) {
    return refuse("the file " + keys_.certificate_file + " holds no certificate in PEM form: " + openssl_reason(f));
  }
  if (f.SSL_CTX_use_PrivateKey_file(context_, keys_.key_file.c_str(), openssl::kPem) != 1 ||
      f.SSL_CTX_check_private_key(context_) != 1) {
    return refuse("the file " + keys_.key_file + " does not hold the key of the certificate in " +
                  keys_.certificate_file + ", in PEM form and without a password: " + openssl_reason(f));
  }
  if (f.SSL_CTX_load_verify_locations(context_, keys_.authority_file.c_str(), nullptr) != 1) {
    return refuse("the file " + keys_.authority_file + " holds no certificate in PEM form: " + openssl_reason(f));
  }
  f.SSL_CTX_set_verify(context_, openssl::kVerifyPeer | openssl::kVerifyRequired, nullptr);
  return Status::ok_status();
}

openssl::Session* TlsContext::new_shared_session(openssl::Ssl* ssl) const {
  const openssl::Functions& f = *functions_;
  openssl::Session* session = f.SSL_SESSION_new();
  const openssl::Cipher* cipher = f.SSL_CIPHER_find(ssl, kSharedCipher.data());
  const auto* key = reinterpret_cast<const unsigned char*>(keys_.shared.data());
  if (session != nullptr && cipher != nullptr &&
      f.SSL_SESSION_set1_master_key(session, key, keys_.shared.size()) == 1 &&
      f.SSL_SESSION_set1_id_context(session, identity_bytes(), kIdentity.size()) == 1 &&
      f.SSL_SESSION_set_cipher(session, cipher) == 1 &&
      f.SSL_SESSION_set_protocol_version(session, openssl::kTls13) == 1) {
    return session;
  }
  f.SSL_SESSION_free(session);
  return nullptr;
}

}  // namespace ringtune
