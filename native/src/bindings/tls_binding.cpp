// SPDX-License-Identifier: Apache-2.0
#include "bindings/tls_binding.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings/errors.h"
#include "transport/tcp/tls/tls_session.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace ringtune {
namespace {

// For Python, which holds it for its connections.
struct TlsKeyring {
  std::shared_ptr<const TlsContext> context;
};

TlsKeyring by_shared_key(const nb::bytes& key) {
  const auto* bytes = reinterpret_cast<const std::byte*>(key.c_str());
  TlsKeyring keyring;
  raise_unless_ok(TlsContext::create({Bytes(bytes, bytes + key.size()), "", "", ""}, keyring.context));
  return keyring;
}

TlsKeyring by_files(const std::string& certificate, const std::string& key, const std::string& authority) {
  TlsKeyring keyring;
  raise_unless_ok(TlsContext::create({{}, certificate, key, authority}, keyring.context));
  return keyring;
}

// "done", or which way the socket must be ready for the next call.
std::string handshake(TlsSession& session) {
  TlsSession::Handshake state = TlsSession::Handshake::kDone;
  raise_unless_ok(session.handshake(state));
  if (state == TlsSession::Handshake::kDone) {
    return "done";
  }
  return state == TlsSession::Handshake::kWantsRead ? "read" : "write";
}

void raise_if_lost(TlsSession& session, const Moved& moved) {
  if (moved.is_lost && moved.error == EBADMSG) {
    throw StatusException({StatusCode::kConfigError, session.refusal()});
  }
  if (moved.is_lost) {
    throw StatusException({StatusCode::kPeerLostError, describe_loss(moved.error)});
  }
}

size_t send(TlsSession& session, const nb::bytes& bytes) {
  const Moved moved = session.try_send({reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()});
  raise_if_lost(session, moved);
  return moved.bytes;
}

nb::bytes receive(TlsSession& session, size_t limit_bytes) {
  std::string bytes(limit_bytes, '\0');
  const Moved moved = session.try_receive({reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
  raise_if_lost(session, moved);
  return nb::bytes(bytes.data(), moved.bytes);
}

nb::bytes binding(TlsSession& session) {
  Bytes bytes;
  raise_unless_ok(session.export_binding(bytes));
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

void bind_tls(nb::module_& module) {
  nb::class_<TlsKeyring>(module, "TlsKeyring")
      .def_static("by_shared_key", &by_shared_key, "key"_a)
      .def_static("by_files", &by_files, "certificate"_a, "key"_a, "authority"_a);
  nb::class_<TlsSession>(module, "TlsSession")
      .def(nb::new_([](const TlsKeyring& keyring, int fd, bool is_server) {
             return std::make_shared<TlsSession>(keyring.context, fd, is_server ? TlsRole::kServer : TlsRole::kClient);
           }),
           "keyring"_a, "fd"_a, nb::kw_only(), "is_server"_a)
      .def("handshake", &handshake)
      .def("send", &send, "data"_a)
      .def("receive", &receive, "limit_bytes"_a)
      .def("has_buffered", &TlsSession::has_buffered)
      .def("binding", &binding)
      .def("move_to", &TlsSession::move_to, "fd"_a);
}

}  // namespace ringtune
