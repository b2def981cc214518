// SPDX-License-Identifier: Apache-2.0
// Lets collectives that XLA calls on the CPU take the way of those on CUDA: the buffers become memory of the stand-in
// GPU, the call is told a stream, and XLA goes on once the stream is through.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "device/standin_cuda.h"
#include "xla/ffi/api/c_api.h"

extern "C" XLA_FFI_Error* ringtune_jax_collective_on_stream(XLA_FFI_CallFrame* frame);

namespace {

struct Width {
  XLA_FFI_DataType dtype;
  size_t bytes;
};

// All others have elements of a byte.
constexpr Width kWidths[] = {{XLA_FFI_DataType_S16, 2},  {XLA_FFI_DataType_U16, 2}, {XLA_FFI_DataType_F16, 2},
                             {XLA_FFI_DataType_BF16, 2}, {XLA_FFI_DataType_S32, 4}, {XLA_FFI_DataType_U32, 4},
                             {XLA_FFI_DataType_F32, 4},  {XLA_FFI_DataType_S64, 8}, {XLA_FFI_DataType_U64, 8},
                             {XLA_FFI_DataType_F64, 8},  {XLA_FFI_DataType_C64, 8}, {XLA_FFI_DataType_C128, 16}};

size_t element_bytes(XLA_FFI_DataType dtype) {
  const auto* known = std::find_if(std::begin(kWidths), std::end(kWidths),
                                   [dtype](const Width& width) { return width.dtype == dtype; });
  return known == std::end(kWidths) ? 1 : known->bytes;
}

void adopt(void** buffers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    size_t bytes = element_bytes(buffer->dtype);
    for (int64_t dimension = 0; dimension < buffer->rank; ++dimension) {
      bytes *= static_cast<size_t>(buffer->dims[dimension]);
    }
    standin_adopt(reinterpret_cast<uint64_t>(buffer->data), bytes);
  }
}

// The context of a call is its stream.
XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* arguments) {
  arguments->stream = arguments->ctx;
  return nullptr;
}

XLA_FFI_Error* get_device(XLA_FFI_DeviceOrdinal_Get_Args* arguments) {
  arguments->device_ordinal = 0;
  return nullptr;
}

}  // namespace

extern "C" XLA_FFI_Error* collective_on_standin_stream(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) {  // asks for facts about the function
    return ringtune_jax_collective_on_stream(frame);
  }
  adopt(frame->args.args, frame->args.size);
  adopt(frame->rets.rets, frame->rets.size);
  XLA_FFI_Api api = *frame->api;
  api.XLA_FFI_Stream_Get = get_stream;
  api.XLA_FFI_DeviceOrdinal_Get = get_device;
  XLA_FFI_CallFrame on_stream = *frame;
  on_stream.api = &api;
  void* const stream = standin_make_stream(0);
  on_stream.ctx = static_cast<XLA_FFI_ExecutionContext*>(stream);
  XLA_FFI_Error* const error = ringtune_jax_collective_on_stream(&on_stream);
  standin_synchronize(stream);
  standin_destroy_stream(stream);
  return error;
}
