// SPDX-License-Identifier: Apache-2.0
// The part of OpenSSL's API that ringtune calls, declared here: neither building nor running ringtune without TLS needs
// OpenSSL. Names and numbers are those of its headers, equal in 1.1.1 and in every 3.x.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringtune::openssl {

// Opaque to everybody but the library.
struct Method;       // SSL_METHOD
struct Context;      // SSL_CTX
struct Ssl;          // SSL
struct Session;      // SSL_SESSION
struct Cipher;       // SSL_CIPHER
struct Digest;       // EVP_MD
struct Bio;          // BIO
struct BioMethod;    // BIO_METHOD
struct StoreMemory;  // X509_STORE_CTX

using VerifyCallback = int (*)(int is_valid, StoreMemory* store);
using PasswordCallback = int (*)(char* password, int size, int is_writing, void* argument);
using UseSessionCallback = int (*)(Ssl* ssl, const Digest* digest, const unsigned char** identity,
                                   size_t* identity_size, Session** session);
using FindSessionCallback = int (*)(Ssl* ssl, const unsigned char* identity, size_t identity_size, Session** session);

inline constexpr unsigned long kOldestVersion = 0x10101000UL;  // 1.1.1: the first with TLS 1.3
inline constexpr int kTls13 = 0x0304;
inline constexpr int kErrorWantRead = 2;
inline constexpr int kErrorWantWrite = 3;
inline constexpr int kErrorZeroReturn = 6;
inline constexpr int kVerifyPeer = 1;
inline constexpr int kVerifyRequired = 2;  // SSL_VERIFY_FAIL_IF_NO_PEER_CERT
inline constexpr int kPem = 1;
inline constexpr int kKeyUpdateNotRequested = 0;

// Commands of SSL_CTX_ctrl, for macros of the headers.
inline constexpr int kSetMode = 33;
inline constexpr int kSetSessionCacheMode = 44;
inline constexpr int kSetMinProtocol = 123;
// SSL_MODE_ENABLE_PARTIAL_WRITE, _ACCEPT_MOVING_WRITE_BUFFER, _AUTO_RETRY
inline constexpr long kModes = 1 | 2 | 4;

inline constexpr int kBioSourceSink = 0x0400;
inline constexpr int kBioEof = 2;
inline constexpr int kBioFlush = 11;
inline constexpr int kBioRead = 1;
inline constexpr int kBioWrite = 2;
inline constexpr int kBioRetry = 8;

// Result, name, parameters. libssl needs libcrypto: a look-up in the first finds the functions of both.
#define RINGTUNE_OPENSSL_FUNCTIONS(F)                                                                           \
  F(unsigned long, OpenSSL_version_num, ())                                                                     \
  F(void, ERR_clear_error, ())                                                                                  \
  F(unsigned long, ERR_peek_last_error, ())                                                                     \
  F(const char*, ERR_reason_error_string, (unsigned long code))                                                 \
  F(const char*, X509_verify_cert_error_string, (long result))                                                  \
  F(int, BIO_get_new_index, ())                                                                                 \
  F(BioMethod*, BIO_meth_new, (int type, const char* name))                                                     \
  F(void, BIO_meth_free, (BioMethod * method))                                                                  \
  F(int, BIO_meth_set_write, (BioMethod * method, int (*write)(Bio*, const char*, int)))                        \
  F(int, BIO_meth_set_read, (BioMethod * method, int (*read)(Bio*, char*, int)))                                \
  F(int, BIO_meth_set_ctrl, (BioMethod * method, long (*ctrl)(Bio*, int, long, void*)))                         \
  F(Bio*, BIO_new, (const BioMethod* method))                                                                   \
  F(void, BIO_set_data, (Bio * bio, void* data))                                                                \
  F(void*, BIO_get_data, (Bio * bio))                                                                           \
  F(void, BIO_set_init, (Bio * bio, int is_ready))                                                              \
  F(void, BIO_set_flags, (Bio * bio, int flags))                                                                \
  F(void, BIO_clear_flags, (Bio * bio, int flags))                                                              \
  F(const Method*, TLS_method, ())                                                                              \
  F(Context*, SSL_CTX_new, (const Method* method))                                                              \
  F(void, SSL_CTX_free, (Context * context))                                                                    \
  F(long, SSL_CTX_ctrl, (Context * context, int command, long value, void* argument))                           \
  F(int, SSL_CTX_set_num_tickets, (Context * context, size_t count))                                            \
  F(int, SSL_CTX_set_ciphersuites, (Context * context, const char* names))                                      \
  F(void, SSL_CTX_set_verify, (Context * context, int mode, VerifyCallback callback))                           \
  F(int, SSL_CTX_set_session_id_context, (Context * context, const unsigned char* id, unsigned size))           \
  F(void, SSL_CTX_set_default_passwd_cb, (Context * context, PasswordCallback callback))                        \
  F(int, SSL_CTX_load_verify_locations, (Context * context, const char* file, const char* folder))              \
  F(int, SSL_CTX_use_certificate_chain_file, (Context * context, const char* file))                             \
  F(int, SSL_CTX_use_PrivateKey_file, (Context * context, const char* file, int type))                          \
  F(int, SSL_CTX_check_private_key, (const Context* context))                                                   \
  F(void, SSL_CTX_set_psk_use_session_callback, (Context * context, UseSessionCallback callback))               \
  F(void, SSL_CTX_set_psk_find_session_callback, (Context * context, FindSessionCallback callback))             \
  F(Ssl*, SSL_new, (Context * context))                                                                         \
  F(void, SSL_free, (Ssl * ssl))                                                                                \
  F(int, SSL_set_ex_data, (Ssl * ssl, int index, void* data))                                                   \
  F(void*, SSL_get_ex_data, (const Ssl* ssl, int index))                                                        \
  F(void, SSL_set_bio, (Ssl * ssl, Bio * reading, Bio * writing))                                               \
  F(void, SSL_set_connect_state, (Ssl * ssl))                                                                   \
  F(void, SSL_set_accept_state, (Ssl * ssl))                                                                    \
  F(int, SSL_do_handshake, (Ssl * ssl))                                                                         \
  F(int, SSL_session_reused, (const Ssl* ssl))                                                                  \
  F(int, SSL_get_error, (const Ssl* ssl, int result))                                                           \
  F(long, SSL_get_verify_result, (const Ssl* ssl))                                                              \
  F(int, SSL_read_ex, (Ssl * ssl, void* memory, size_t size, size_t* read))                                     \
  F(int, SSL_write_ex, (Ssl * ssl, const void* memory, size_t size, size_t* written))                           \
  F(int, SSL_has_pending, (const Ssl* ssl))                                                                     \
  F(int, SSL_key_update, (Ssl * ssl, int type))                                                                 \
  F(int, SSL_export_keying_material,                                                                            \
    (Ssl * ssl, unsigned char* out, size_t size, const char* label, size_t label_size, const unsigned char* of, \
     size_t of_size, int has_context))                                                                          \
  F(const Cipher*, SSL_CIPHER_find, (Ssl * ssl, const unsigned char* id))                                       \
  F(Session*, SSL_SESSION_new, ())                                                                              \
  F(void, SSL_SESSION_free, (Session * session))                                                                \
  F(int, SSL_SESSION_set1_master_key, (Session * session, const unsigned char* key, size_t size))               \
  F(int, SSL_SESSION_set1_id_context, (Session * session, const unsigned char* id, unsigned size))              \
  F(int, SSL_SESSION_set_cipher, (Session * session, const Cipher* cipher))                                     \
  F(int, SSL_SESSION_set_protocol_version, (Session * session, int version))

// Each function under the name that the library exports.
struct Functions {
#define RINGTUNE_OPENSSL_POINTER(result, name, parameters) result(*name) parameters = nullptr;
  RINGTUNE_OPENSSL_FUNCTIONS(RINGTUNE_OPENSSL_POINTER)
#undef RINGTUNE_OPENSSL_POINTER
};

}  // namespace ringtune::openssl
