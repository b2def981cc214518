// SPDX-License-Identifier: Apache-2.0
#include "device/pack_kernels.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "device/kernels/pack_list.h"

namespace ringtune {
namespace {

// One piece per kernel: compilers need not take longer literals.
constexpr std::string_view kPtx[] = {
#include "device/kernels/pack_scale.ptx.inc"
};

enum KernelIndex : size_t {
  kCopy1,
  kCopy2,
  kCopy4,
  kCopy8,
  kScaleFloat16,
  kScaleBFloat16,
  kScaleFloat32,
  kScaleFloat64,
  kWidenFloat16,
  kNarrowFloat16,
};

constexpr const char* kNames[] = {
    "ringtune_copy_1",        "ringtune_copy_2",         "ringtune_copy_4",        "ringtune_copy_8",
    "ringtune_scale_float16", "ringtune_scale_bfloat16", "ringtune_scale_float32", "ringtune_scale_float64",
    "ringtune_widen_float16", "ringtune_narrow_float16",
};

constexpr uint64_t kMaxBlocks = std::numeric_limits<int32_t>::max();

bool is_scaled(PackScale scale) { return scale.average_of > 1 || scale.factor != 1; }

std::optional<KernelIndex> copy_kernel(DataType dtype) {
  switch (element_bytes(dtype)) {
    case 1:
      return kCopy1;
    case 2:
      return kCopy2;
    case 4:
      return kCopy4;
    case 8:
      return kCopy8;
    default:
      return std::nullopt;
  }
}

std::optional<KernelIndex> scale_kernel(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return kScaleFloat16;
    case DataType::kBFloat16:
      return kScaleBFloat16;
    case DataType::kFloat32:
      return kScaleFloat32;
    case DataType::kFloat64:
      return kScaleFloat64;
    default:
      return std::nullopt;
  }
}

std::string refusal(const char* what, PackTypes types) {
  return std::string("the GPU kernels cannot ") + what + " tensors of " + std::string(dtype_name(types.tensor)) +
         " with a buffer of " + std::string(dtype_name(types.buffer));
}

// A kernel with all that its launches share.
struct Move {
  cuda::Kernel kernel = nullptr;
  size_t source_bytes = 1;  // of an element
  size_t target_bytes = 1;
  PackScale scale;
};

// Fills lists of arrays, and launches each that is full.
class Launches {
 public:
  Launches(Device& device, const Move& move, cuda::Stream stream)
      : device_(device),
        move_(move),
        stream_(stream),
        chunk_(
            pack_chunk_elements(static_cast<uint32_t>(move.source_bytes), static_cast<uint32_t>(move.target_bytes))) {
    list_.size = 0;
    list_.average_of = move.scale.average_of;
    list_.factor = move.scale.factor;
  }

  Status add(const PackEntry& entry) {
    if (entry.elements == 0) return Status::ok_status();
    const uint64_t chunks = (entry.elements - 1) / chunk_ + 1;
    if (chunks > kMaxBlocks || entry.source % move_.source_bytes != 0 || entry.target % move_.target_bytes != 0) {
      return {StatusCode::kDeviceError, "the GPU kernels cannot move " + std::to_string(entry.elements) +
                                            " elements from address " + std::to_string(entry.source) + " to " +
                                            std::to_string(entry.target)};
    }
    if (list_.size == kPackEntries || blocks_ + chunks > kMaxBlocks) {
      if (Status s = launch(); !s.ok()) return s;
    }
    list_.entries[list_.size] = entry;
    list_.first_chunks[list_.size] = static_cast<uint32_t>(blocks_);
    ++list_.size;
    blocks_ += chunks;
    return Status::ok_status();
  }

  // The list as far as it is filled.
  Status launch() {
    if (list_.size == 0) return Status::ok_status();
    Status status = device_.launch(move_.kernel, {static_cast<unsigned>(blocks_), kPackThreads}, &list_, stream_);
    list_.size = 0;
    blocks_ = 0;
    return status;
  }

 private:
  Device& device_;
  const Move move_;
  const cuda::Stream stream_;
  const uint64_t chunk_;  // elements
  uint64_t blocks_ = 0;
  PackList list_;
};

std::optional<KernelIndex> kernel_of(DataType source, DataType target, bool is_scaled) {
  if (source == target) {
    return is_scaled ? scale_kernel(source) : copy_kernel(source);
  }
  if (source == DataType::kFloat16 && target == DataType::kFloat32) {
    return kWidenFloat16;
  }
  return source == DataType::kFloat32 && target == DataType::kFloat16 ? std::optional(kNarrowFloat16) : std::nullopt;
}

}  // namespace

Status PackKernels::open(std::shared_ptr<Device> device, std::shared_ptr<PackKernels>& kernels) {
  static_assert(std::size(kNames) == kKernels);
  const std::shared_ptr<PackKernels> opened(new PackKernels(std::move(device)));
  std::string ptx;
  for (const std::string_view piece : kPtx) {
    ptx += piece;
  }
  const Device::Scope scope(*opened->device_);
  if (!scope.status().ok()) return scope.status();
  cuda::Module module = nullptr;
  if (Status s = opened->device_->load_module(ptx.c_str(), module); !s.ok()) return s;
  opened->module_ = module;
  for (size_t i = 0; i < kKernels; ++i) {
    if (Status s = opened->device_->find_kernel(module, kNames[i], opened->kernels_[i]); !s.ok()) return s;
  }
  kernels = opened;
  return Status::ok_status();
}

PackKernels::~PackKernels() {
  if (module_ != nullptr) {
    const Device::Scope scope(*device_);
    device_->unload_module(module_);
  }
}

bool PackKernels::is_supported(PackTypes types, bool is_scaled) {
  const bool is_narrower = types.tensor == DataType::kFloat32 && types.buffer == DataType::kFloat16;
  return !is_narrower && kernel_of(types.tensor, types.buffer, is_scaled).has_value();
}

Status PackKernels::gather(PackTypes types, std::span<const PackedTensor> tensors, cuda::DevicePointer buffer,
                           double prescale, cuda::Stream stream) {
  if (!is_supported(types, prescale != 1)) return {StatusCode::kDeviceError, refusal("gather", types)};
  const size_t tensor_bytes = element_bytes(types.tensor);
  const size_t buffer_bytes = element_bytes(types.buffer);
  const KernelIndex kernel = *kernel_of(types.tensor, types.buffer, prescale != 1);
  Launches launches(*device_, {kernels_[kernel], tensor_bytes, buffer_bytes, {1, prescale}}, stream);
  for (const PackedTensor& packed : tensors) {
    const PackEntry entry{packed.tensor, buffer + packed.offset * buffer_bytes, packed.elements};
    if (Status s = launches.add(entry); !s.ok()) return s;
  }
  return launches.launch();
}

Status PackKernels::scatter(PackTypes types, std::span<const PackedTensor> tensors, cuda::DevicePointer buffer,
                            PackScale scale, cuda::Stream stream) {
  if (!is_supported(types, is_scaled(scale))) return {StatusCode::kDeviceError, refusal("scatter", types)};
  const size_t tensor_bytes = element_bytes(types.tensor);
  const size_t buffer_bytes = element_bytes(types.buffer);
  const KernelIndex kernel = *kernel_of(types.buffer, types.tensor, is_scaled(scale));
  Launches launches(*device_, {kernels_[kernel], buffer_bytes, tensor_bytes, scale}, stream);
  for (const PackedTensor& packed : tensors) {
    const PackEntry entry{buffer + packed.offset * buffer_bytes, packed.tensor, packed.elements};
    if (Status s = launches.add(entry); !s.ok()) return s;
  }
  return launches.launch();
}

Status PackKernels::scale(DataType dtype, std::span<const DeviceArray> arrays, PackScale scale, cuda::Stream stream) {
  const bool is_changed = is_scaled(scale);
  if (!is_supported({dtype, dtype}, is_changed)) return {StatusCode::kDeviceError, refusal("scale", {dtype, dtype})};
  if (!is_changed) return Status::ok_status();
  const size_t bytes = element_bytes(dtype);
  Launches launches(*device_, {kernels_[*scale_kernel(dtype)], bytes, bytes, scale}, stream);
  for (const DeviceArray& array : arrays) {
    if (Status s = launches.add({array.address, array.address, array.elements}); !s.ok()) return s;
  }
  return launches.launch();
}

}  // namespace ringtune
