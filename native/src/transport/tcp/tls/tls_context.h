// SPDX-License-Identifier: Apache-2.0
// Keys and rules of TLS for the connections of one job: TLS 1.3 alone, both ends authenticated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "transport/tcp/tls/openssl_abi.h"

namespace ringtune {

// Records that one key may protect: RFC 8446, 5.5, allows 2^24.5 of 16 KiB under AES-GCM.
inline constexpr uint64_t kRecordsPerKey = 1 << 22;

// Either a key that both ends share, or PEM files: a certificate (chain) with its key, and the authorities of which one
// must have signed the other end's certificate.
struct TlsKeys {
  Bytes shared;
  std::string certificate_file;
  std::string key_file;
  std::string authority_file;
};

class TlsContext {
 public:
  // Index at which an SSL object keeps its context: the application's own of SSL_set_ex_data.
  static constexpr int kIndex = 0;

  // ConfigError if there is no OpenSSL, or if a file has the wrong contents; names file and reason.
  static Status create(TlsKeys keys, std::shared_ptr<const TlsContext>& context,
                       uint64_t records_per_key = kRecordsPerKey);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  const openssl::Functions& functions() const { return *functions_; }
  const openssl::BioMethod* socket_method() const { return socket_method_; }
  openssl::Context* get() const { return context_; }
  bool is_by_shared_key() const { return !keys_.shared.empty(); }
  uint64_t records_per_key() const { return records_per_key_; }

  // The shared key as a session that both ends resume, with Diffie-Hellman; the caller owns it. Null on failure.
  openssl::Session* new_shared_session(openssl::Ssl* ssl) const;

 private:
  TlsContext(TlsKeys keys, uint64_t records_per_key) : keys_(std::move(keys)), records_per_key_(records_per_key) {}
  Status initialize();
  void use_shared_key();
  Status use_files();

  const TlsKeys keys_;
  const uint64_t records_per_key_;
  const openssl::Functions* functions_ = nullptr;
  openssl::BioMethod* socket_method_ = nullptr;
  openssl::Context* context_ = nullptr;
};

}  // namespace ringtune
