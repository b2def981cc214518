// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_check.h"

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/half.h"

namespace ringtune {
namespace {

// More than a block moves, an odd number, and at an address that no vector begins with.
constexpr size_t kElements = 40'007;
constexpr size_t kOffset = 3;
constexpr double kPrescale = 0.3;
constexpr PackScale kAfter{3, 1.7};
constexpr size_t kRoomBytes = (kElements + 2 * kOffset) * sizeof(double);
constexpr int64_t kLimitNs = 30 * kNsPerS;

float number(Float16 value) { return to_float(value); }
float number(BFloat16 value) { return to_float(value); }
float number(float value) { return value; }
double number(double value) { return value; }

template <typename T>
T element(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

class KernelCheck {
 public:
  KernelCheck(Device& device, PackKernels& kernels) : device_(device), kernels_(kernels) {}
  // Memory that a kernel may still use is left to the driver.
  ~KernelCheck() {
    const int64_t limit_ns = now_ns() + kNsPerS;
    while (!is_idle_ && !device_.is_lost() && now_ns() < limit_ns) {
      [[maybe_unused]] const Status looked = device_.is_idle(stream_, is_idle_);
    }
    if (stream_ != nullptr) device_.destroy_stream(stream_);
    if (memory_ != nullptr && (is_idle_ || device_.is_lost())) device_.free_pinned(memory_);
  }
  KernelCheck(const KernelCheck&) = delete;
  KernelCheck& operator=(const KernelCheck&) = delete;

  Status prepare() {
    if (Status s = device_.make_stream(stream_); !s.ok()) return s;
    return device_.allocate_pinned(3 * kRoomBytes, memory_);
  }

  // From tensors of T to a buffer of B, and back to other tensors.
  template <typename T, typename B>
  Status scaled(PackTypes types) {
    using Number = decltype(number(B()));
    auto* const source = room<T>(0);
    auto* const target = room<T>(2);
    std::vector<T> expected;
    for (size_t i = 0; i < kElements; ++i) {
      source[i] = element<T>((static_cast<double>(i) - 17.0) * (i % 7 == 0 ? 1e-7 : 0.37));
      const B packed = element<B>(number(source[i]) * static_cast<Number>(kPrescale));
      const Number average = number(packed) / static_cast<Number>(kAfter.average_of);
      expected.push_back(element<T>(average * static_cast<Number>(kAfter.factor)));
    }
    if (Status s = run(types, pointer_of(source), pointer_of(target), {kPrescale, kAfter}); !s.ok()) return s;
    return compare(types, expected.data(), target, kElements * sizeof(T));
  }

  template <typename T>
  Status copied(DataType dtype) {
    auto* const source = room<T>(0);
    auto* const target = room<T>(2);
    for (size_t i = 0; i < kElements; ++i) {
      source[i] = static_cast<T>(i * 0x9E3779B97F4A7C15ULL);
    }
    if (Status s = run({dtype, dtype}, pointer_of(source), pointer_of(target), {1, {}}); !s.ok()) return s;
    return compare({dtype, dtype}, source, target, kElements * sizeof(T));
  }

 private:
  struct Scales {
    double before;
    PackScale after;
  };

  // Past the first elements of a third of the memory.
  template <typename T>
  T* room(size_t number) const {
    return reinterpret_cast<T*>(memory_ + number * kRoomBytes) + kOffset;
  }
  static cuda::DevicePointer pointer_of(const void* memory) { return reinterpret_cast<cuda::DevicePointer>(memory); }

  Status run(PackTypes types, cuda::DevicePointer source, cuda::DevicePointer target, const Scales& scales) {
    const cuda::DevicePointer buffer = pointer_of(memory_ + kRoomBytes);
    is_idle_ = false;
    const PackedTensor from{source, kElements, kOffset};
    if (Status s = kernels_.gather(types, {&from, 1}, buffer, scales.before, stream_); !s.ok()) return s;
    const PackedTensor to{target, kElements, kOffset};
    if (Status s = kernels_.scatter(types, {&to, 1}, buffer, scales.after, stream_); !s.ok()) return s;
    return await();
  }

  Status await() {
    const int64_t limit_ns = now_ns() + kLimitNs;
    while (true) {
      if (Status s = device_.is_idle(stream_, is_idle_); !s.ok() || is_idle_) return s;
      if (now_ns() > limit_ns) {
        return {StatusCode::kDeviceError, "the kernels' check has not ended in 30 s"};
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  static Status compare(PackTypes types, const void* expected, const void* got, size_t bytes) {
    if (std::memcmp(expected, got, bytes) == 0) {
      return Status::ok_status();
    }
    return {StatusCode::kDeviceError, "its kernels give other bits than the CPU for tensors of " +
                                          std::string(dtype_name(types.tensor)) + " in a buffer of " +
                                          std::string(dtype_name(types.buffer))};
  }

  Device& device_;
  PackKernels& kernels_;
  cuda::Stream stream_ = nullptr;
  std::byte* memory_ = nullptr;  // tensors, buffer, results
  bool is_idle_ = true;
};

}  // namespace

Status check_pack_kernels(Device& device, PackKernels& kernels) {
  KernelCheck check(device, kernels);
  if (Status s = check.prepare(); !s.ok()) return s;
  if (Status s = check.copied<uint8_t>(DataType::kUInt8); !s.ok()) return s;
  if (Status s = check.copied<uint16_t>(DataType::kFloat16); !s.ok()) return s;
  if (Status s = check.copied<uint32_t>(DataType::kInt32); !s.ok()) return s;
  if (Status s = check.copied<uint64_t>(DataType::kInt64); !s.ok()) return s;
  if (Status s = check.scaled<Float16, float>({DataType::kFloat16, DataType::kFloat32}); !s.ok()) return s;
  if (Status s = check.scaled<BFloat16, BFloat16>({DataType::kBFloat16, DataType::kBFloat16}); !s.ok()) return s;
  if (Status s = check.scaled<float, float>({DataType::kFloat32, DataType::kFloat32}); !s.ok()) return s;
  return check.scaled<double, double>({DataType::kFloat64, DataType::kFloat64});
}

}  // namespace ringtune
