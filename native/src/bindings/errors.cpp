// SPDX-License-Identifier: Apache-2.0
#include "bindings/errors.h"

#include <string_view>

namespace nb = nanobind;

namespace ringtune {

const char* error_class_name(StatusCode code) {
  switch (code) {
    case StatusCode::kConfigError:
      return "ConfigError";
    case StatusCode::kMismatchError:
      return "MismatchError";
    case StatusCode::kPeerLostError:
      return "PeerLostError";
    case StatusCode::kCollectiveTimeout:
      return "CollectiveTimeout";
    case StatusCode::kForkedProcessError:
      return "ForkedProcessError";
    case StatusCode::kDeviceError:
      return "DeviceError";
    case StatusCode::kOk:
    case StatusCode::kShutDown:
      break;
  }
  return "RingtuneError";
}

namespace {

void translate(const std::exception_ptr& exception, void* /*payload*/) {
  try {
    std::rethrow_exception(exception);
  } catch (const StatusException& error) {
    const nb::object type = nb::module_::import_("ringtune.errors").attr(error_class_name(error.status().code()));
    const std::string_view text = error.what();  // with names from other ranks, whose bytes may have been changed
    const nb::object message =
        nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    PyErr_SetObject(type.ptr(), message.ptr());
  }
}

}  // namespace

void register_errors() { nb::register_exception_translator(&translate, nullptr); }

}  // namespace ringtune
