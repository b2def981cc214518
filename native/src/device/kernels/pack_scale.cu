// SPDX-License-Identifier: Apache-2.0
// Kernels that move a list of arrays, and scale them on the way: from tensors to a buffer, back, or in place.
//
// One source for two compilers: `make kernels` writes pack_scale.ptx.inc from it, and the tests' stand-in for the
// driver runs it on the CPU, where it defines what CUDA C has and C++ has not. The arithmetic is that of collectives/
// on CPUs: 16-bit floats are computed with in float32, and each operation is rounded, so no compiler may fuse two of
// them.
#include "base/half.h"
#include "device/kernels/pack_list.h"

namespace ringtune {
namespace {

// Elements that a thread moves at once.
template <typename T, unsigned kCount>
struct alignas(sizeof(T) * kCount) Group {
  T values[kCount];
};

template <unsigned kCount, typename T>
const Group<T, kCount>* groups_at(const T* array) {
  return reinterpret_cast<const Group<T, kCount>*>(array);
}
template <unsigned kCount, typename T>
Group<T, kCount>* groups_at(T* array) {
  return reinterpret_cast<Group<T, kCount>*>(array);
}

// Loads and stores of a group are one instruction each, which compilers find for 32-bit words alone.
struct alignas(16) Words {
  uint32_t words[4];
};

template <typename G>
G load(const G* from) {
  if constexpr (sizeof(G) == sizeof(Words)) {
    const Words words = *reinterpret_cast<const Words*>(from);
    G group;
    memcpy(&group, &words, sizeof(group));
    return group;
  } else {
    return *from;
  }
}

template <typename G>
void store(G* to, const G& group) {
  if constexpr (sizeof(G) == sizeof(Words)) {
    Words words;
    memcpy(&words, &group, sizeof(group));
    *reinterpret_cast<Words*>(to) = words;
  } else {
    *to = group;
  }
}

template <typename T>
struct Copy {
  using Source = T;
  using Target = T;

  explicit Copy(const PackList& /*list*/) {}
  template <unsigned kCount>
  Group<T, kCount> operator()(const Group<T, kCount>& source) const {
    return source;
  }
};

// The number that an element stands for, in the type in which it is computed with, and back.
inline float number(Float16 element) { return to_float(element); }
inline float number(BFloat16 element) { return to_float(element); }
inline float number(float element) { return element; }
inline double number(double element) { return element; }
inline void assign(Float16& element, float value) { element = to_float16(value); }
inline void assign(BFloat16& element, float value) { element = to_bfloat16(value); }
inline void assign(float& element, float value) { element = value; }
inline void assign(double& element, double value) { element = value; }

template <typename SourceType, typename TargetType>
struct Scale {
  using Source = SourceType;
  using Target = TargetType;
  using Number = decltype(number(Source()));

  explicit Scale(const PackList& list)
      : is_averaged(list.average_of > 1),
        is_scaled(list.factor != 1),
        ranks(static_cast<Number>(list.average_of)),
        factor(static_cast<Number>(list.factor)) {}
  template <unsigned kCount>
  Group<Target, kCount> operator()(const Group<Source, kCount>& source) const {
    Group<Target, kCount> target;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
      Number value = number(source.values[i]);
      if (is_averaged) value = value / ranks;
      if (is_scaled) value = value * factor;
      assign(target.values[i], value);
    }
    return target;
  }

  const bool is_averaged;
  const bool is_scaled;
  const Number ranks;
  const Number factor;
};

// The block's threads take turns. Each loads `kLoads` groups before it stores the first, to wait once for all.
template <unsigned kLoads, typename SourceGroup, typename TargetGroup, typename Operation>
void move_groups(const SourceGroup* source, TargetGroup* target, uint32_t groups, const Operation& operation) {
#pragma unroll 1
  for (uint32_t first = threadIdx.x; first < groups; first += kPackThreads * kLoads) {
    SourceGroup loaded[kLoads];
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) {
      const uint32_t group = first + i * kPackThreads;
      if (group < groups) loaded[i] = load(source + group);
    }
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) {
      const uint32_t group = first + i * kPackThreads;
      if (group < groups) store(target + group, operation(loaded[i]));
    }
  }
}

// Elements before the first that a group may begin with.
template <unsigned kCount, typename T>
uint32_t unaligned_elements(const T* array) {
  const uint64_t bytes = kCount * sizeof(T);
  return static_cast<uint32_t>((bytes - reinterpret_cast<uint64_t>(array) % bytes) % bytes / sizeof(T));
}

// Moves 16 bytes of the wider type at once, but for the first and last elements; elements where the two addresses do
// not allow it.
template <typename Operation>
void move_array(const typename Operation::Source* source, typename Operation::Target* target, uint32_t count,
                const Operation& operation) {
  constexpr unsigned kCount = pack_chunk_elements(sizeof(*source), sizeof(*target)) / (kPackChunkBytes / 16);
  const uint32_t head = unaligned_elements<kCount>(source);
  if (head != unaligned_elements<kCount>(target) || head >= count) {
    move_groups<4>(groups_at<1>(source), groups_at<1>(target), count, operation);
    return;
  }
  const uint32_t groups = (count - head) / kCount;
  const uint32_t grouped = groups * kCount;
  move_groups<2>(groups_at<kCount>(source + head), groups_at<kCount>(target + head), groups, operation);
  if (threadIdx.x < count - grouped) {
    const uint32_t at = threadIdx.x < head ? threadIdx.x : threadIdx.x + grouped;
    *groups_at<1>(target + at) = operation(*groups_at<1>(source + at));
  }
}

// The last entry whose chunks begin at this one or before.
inline uint32_t entry_of(const PackList& list, uint32_t chunk) {
  uint32_t found = 0;
  uint32_t end = list.size;
  while (end - found > 1) {
    const uint32_t middle = (found + end) / 2;
    const bool is_before = list.first_chunks[middle] <= chunk;
    found = is_before ? middle : found;
    end = is_before ? end : middle;
  }
  return found;
}

template <typename Operation>
void move_chunk(const PackList& list) {
  using Source = typename Operation::Source;
  using Target = typename Operation::Target;
  constexpr uint32_t kChunk = pack_chunk_elements(sizeof(Source), sizeof(Target));
  const uint32_t index = entry_of(list, blockIdx.x);
  const PackEntry& entry = list.entries[index];
  const uint64_t start = static_cast<uint64_t>(blockIdx.x - list.first_chunks[index]) * kChunk;
  const uint64_t left = entry.elements - start;
  move_array(reinterpret_cast<const Source*>(entry.source) + start, reinterpret_cast<Target*>(entry.target) + start,
             static_cast<uint32_t>(left < kChunk ? left : kChunk), Operation(list));
}

}  // namespace
}  // namespace ringtune

#define RINGTUNE_KERNEL(name, ...)                                                                           \
  extern "C" __global__ void __launch_bounds__(ringtune::kPackThreads) name(const ringtune::PackList list) { \
    using namespace ringtune;                                                                                \
    move_chunk<__VA_ARGS__>(list);                                                                           \
  }

RINGTUNE_KERNEL(ringtune_copy_1, Copy<uint8_t>)
RINGTUNE_KERNEL(ringtune_copy_2, Copy<uint16_t>)
RINGTUNE_KERNEL(ringtune_copy_4, Copy<uint32_t>)
RINGTUNE_KERNEL(ringtune_copy_8, Copy<uint64_t>)
RINGTUNE_KERNEL(ringtune_scale_float16, Scale<Float16, Float16>)
RINGTUNE_KERNEL(ringtune_scale_bfloat16, Scale<BFloat16, BFloat16>)
RINGTUNE_KERNEL(ringtune_scale_float32, Scale<float, float>)
RINGTUNE_KERNEL(ringtune_scale_float64, Scale<double, double>)
RINGTUNE_KERNEL(ringtune_widen_float16, Scale<Float16, float>)
RINGTUNE_KERNEL(ringtune_narrow_float16, Scale<float, Float16>)
