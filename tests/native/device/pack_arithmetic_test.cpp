// SPDX-License-Identifier: Apache-2.0
// The kernels' arithmetic against that of the reductions on CPUs, bit for bit.
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "collectives/element.h"
#include "collectives/reduce_kernels.h"
#include "device/pack_world.h"

namespace ringtune {
namespace {

using testing::Bytes;
using testing::DeviceVector;
using testing::random_bytes;
using testing::UserStream;

constexpr size_t kScaledElements = 1 << 16;  // every 16-bit float once
constexpr DataType kScaledTypes[] = {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64};
// Powers of two, numbers that are rounded, and results that overflow or become subnormal.
constexpr double kPrescales[] = {0.5, 2, 1.0 / 3, -1.7, 0, 1e-6, 65536, 1e38, 1e-40};
constexpr int kAverages[] = {2, 3, 7, 8, 1000};

template <typename T>
void put_specials(Bytes& values) {
  using Limits = std::numeric_limits<T>;
  const T specials[] = {0,
                        -T{0},
                        1,
                        Limits::infinity(),
                        -Limits::infinity(),
                        Limits::quiet_NaN(),
                        -Limits::quiet_NaN(),
                        Limits::max(),
                        Limits::lowest(),
                        Limits::min(),
                        Limits::denorm_min(),
                        -Limits::denorm_min(),
                        Limits::epsilon(),
                        static_cast<T>(65504),
                        static_cast<T>(65519.996),
                        static_cast<T>(65520),
                        static_cast<T>(0x1.0p-14),
                        static_cast<T>(0x1.8p-24),
                        static_cast<T>(0x1.0p-25)};
  std::memcpy(values.data(), specials, sizeof(specials));
}

// Every 16-bit float, from some bits on; of wider ones some that are special and many that are random.
Bytes values_of(DataType dtype, uint16_t first) {
  Bytes values = random_bytes(kScaledElements * element_bytes(dtype), first);
  if (dtype == DataType::kFloat32) {
    put_specials<float>(values);
  } else if (dtype == DataType::kFloat64) {
    put_specials<double>(values);
  } else {
    for (size_t i = 0; i < kScaledElements; ++i) {
      write_element(values.data(), i, static_cast<uint16_t>(i * 3 + first));
    }
  }
  return values;
}

std::string named(DataType dtype, double factor, int ranks = 1) {
  return std::string(dtype_name(dtype)) + ", factor " + std::to_string(factor) + ", ranks " + std::to_string(ranks);
}

class PackArithmeticTest : public testing::PackTest {
 protected:
  void SetUp() override {
    PackTest::SetUp();
    open();
  }

  // The buffer after one tensor was gathered to its beginning.
  Bytes gathered(PackTypes types, const Bytes& tensor, double prescale) {
    DeviceVector<std::byte> memory(tensor.size());
    DeviceVector<std::byte> buffer(kScaledElements * element_bytes(types.buffer));
    const std::vector<PackedTensor> tensors{{memory.address(), kScaledElements, 0}};
    memory.write_on(stream_, tensor, 0);
    const Device::Scope scope(*device_);
    EXPECT_TRUE(kernels_->gather(types, tensors, buffer.address(), prescale, stream_.raw()).ok());
    return buffer.read_on(stream_);
  }

  Bytes scattered(PackTypes types, const Bytes& from, PackScale scale) {
    DeviceVector<std::byte> buffer(from.size());
    DeviceVector<std::byte> memory(kScaledElements * element_bytes(types.tensor));
    const std::vector<PackedTensor> tensors{{memory.address(), kScaledElements, 0}};
    buffer.write_on(stream_, from, 0);
    const Device::Scope scope(*device_);
    EXPECT_TRUE(kernels_->scatter(types, tensors, buffer.address(), scale, stream_.raw()).ok());
    return memory.read_on(stream_);
  }

  const UserStream stream_;
};

// The result or partial result of the inputs on CPUs.
Bytes on_cpu(const Reduction& reduction, const ReductionInputs& inputs, ReductionOutput output) {
  const bool is_result = output == ReductionOutput::kResult;
  const DataType dtype = is_result ? reduction.dtype : accumulator_dtype(reduction.dtype);
  Bytes target(kScaledElements * element_bytes(dtype));
  reduce(reduction, inputs, output, target.data(), kScaledElements);
  return target;
}

// The same bits, but for the sums of two NaN: which one that is, compilers choose.
::testing::AssertionResult have_same_numbers(DataType dtype, const Bytes& expected, const Bytes& actual) {
  if (expected.size() != actual.size()) return ::testing::AssertionFailure() << "sizes differ";
  return with_element(dtype, [&](auto element) {
    using E = decltype(element);
    using Stored = typename E::Stored;
    for (size_t i = 0; i < kScaledElements; ++i) {
      const auto a = read_element<Stored>(expected.data(), i);
      const auto b = read_element<Stored>(actual.data(), i);
      const bool are_nan = E::load(a) != E::load(a) && E::load(b) != E::load(b);
      if (!are_nan && std::memcmp(&a, &b, sizeof(a)) != 0) {
        return ::testing::AssertionFailure()
               << "element " << i << ": expected " << +E::load(a) << ", actual " << +E::load(b);
      }
    }
    return ::testing::AssertionSuccess();
  });
}

Reduction end_of_sum(DataType dtype, PackScale scale) {
  return {dtype, scale.average_of > 1 ? ReduceOp::kAverage : ReduceOp::kSum, 1, scale.factor, scale.average_of};
}

TEST_F(PackArithmeticTest, APrescaledTensorHasTheBitsOfAContribution) {
  for (const DataType dtype : kScaledTypes) {
    const Bytes tensor = values_of(dtype, 1);
    const std::byte* const contribution[] = {tensor.data()};
    for (const double factor : kPrescales) {
      const Reduction reduction{dtype, ReduceOp::kSum, factor};

      EXPECT_TRUE(on_cpu(reduction, {{}, contribution}, ReductionOutput::kResult) ==
                  gathered({dtype, dtype}, tensor, factor))
          << named(dtype, factor);
    }
  }
}

TEST_F(PackArithmeticTest, AScatteredSumIsAveragedAndScaledAsAResultIs) {
  for (const DataType dtype : kScaledTypes) {
    const Bytes sum = values_of(dtype, 2);
    const std::byte* const contribution[] = {sum.data()};
    for (const int ranks : kAverages) {
      for (const double factor : {1.0, 1.0 / 3, 1e-6}) {
        const Bytes expected = on_cpu(end_of_sum(dtype, {ranks, factor}), {{}, contribution}, ReductionOutput::kResult);

        EXPECT_TRUE(expected == scattered({dtype, dtype}, sum, {ranks, factor})) << named(dtype, factor, ranks);
      }
    }
  }
}

TEST_F(PackArithmeticTest, ASumScaledInPlaceHasTheSameBits) {
  for (const DataType dtype : kScaledTypes) {
    const Bytes sum = values_of(dtype, 3);
    const std::byte* const contribution[] = {sum.data()};
    const Bytes expected = on_cpu(end_of_sum(dtype, {3, 0.7}), {{}, contribution}, ReductionOutput::kResult);
    DeviceVector<std::byte> memory(sum.size());
    const size_t half = kScaledElements / 2 + 1;
    const std::vector<DeviceArray> arrays{{memory.address(), half},
                                          {memory.address() + half * element_bytes(dtype), kScaledElements - half}};
    memory.write_on(stream_, sum, 0);
    const Device::Scope scope(*device_);
    ASSERT_TRUE(kernels_->scale(dtype, arrays, {3, 0.7}, stream_.raw()).ok());

    EXPECT_TRUE(expected == memory.read_on(stream_)) << dtype_name(dtype);
  }
}

TEST_F(PackArithmeticTest, Float16InABufferOfFloat32IsAPartialResult) {
  const PackTypes types{DataType::kFloat16, DataType::kFloat32};
  const Bytes tensor = values_of(DataType::kFloat16, 4);
  const Bytes sum = values_of(DataType::kFloat32, 4);
  const std::byte* const contribution[] = {tensor.data()};
  const std::byte* const partial[] = {sum.data()};
  for (const double factor : {1.0, 0.5, 1.0 / 3, 1e-6}) {
    const Reduction reduction{DataType::kFloat16, ReduceOp::kSum, factor};
    EXPECT_TRUE(on_cpu(reduction, {{}, contribution}, ReductionOutput::kPartial) == gathered(types, tensor, factor))
        << factor;
    for (const int ranks : {0, 1, 2, 7}) {
      const Reduction end = end_of_sum(DataType::kFloat16, {ranks, factor});
      EXPECT_TRUE(on_cpu(end, {partial, {}}, ReductionOutput::kResult) == scattered(types, sum, {ranks, factor}))
          << named(DataType::kFloat16, factor, ranks);
    }
  }
}

// A factor that float32 rounds to 1, one of the type's own, and both ends of a conversion.
TEST_F(PackArithmeticTest, TheFactorIsRoundedToTheTypeInWhichItIsMultiplied) {
  const double barely_more = 1 + 1e-12;
  for (const DataType dtype : kScaledTypes) {
    const Bytes tensor = values_of(dtype, 5);
    const std::byte* const contribution[] = {tensor.data()};
    const Reduction reduction{dtype, ReduceOp::kSum, barely_more};

    EXPECT_TRUE(on_cpu(reduction, {{}, contribution}, ReductionOutput::kResult) ==
                gathered({dtype, dtype}, tensor, barely_more))
        << dtype_name(dtype);
  }
}

// Each rank gathers, the buffers are summed in the buffer's type, each rank scatters: as the engine with two ranks.
TEST_F(PackArithmeticTest, TwoRanksGetWhatTheReductionOfTheirTensorsGives) {
  for (const DataType dtype : kScaledTypes) {
    const DataType summed = accumulator_dtype(dtype);
    const PackTypes types{dtype, dtype == DataType::kFloat16 ? summed : dtype};
    if (types.buffer != summed) continue;  // rounded in between
    const Bytes first = values_of(dtype, 6);
    const Bytes second = values_of(dtype, 60000);
    const std::byte* const tensors[] = {first.data(), second.data()};
    const Reduction reduction{dtype, ReduceOp::kAverage, 1.0 / 3, 0.7, 2};
    const Bytes buffers[] = {gathered(types, first, 1.0 / 3), gathered(types, second, 1.0 / 3)};
    const std::byte* const gathered_tensors[] = {buffers[0].data(), buffers[1].data()};

    const Bytes sum = on_cpu({summed, ReduceOp::kSum}, {{}, gathered_tensors}, ReductionOutput::kResult);
    const Bytes result = scattered(types, sum, {2, 0.7});

    const Bytes expected = on_cpu(reduction, {{}, tensors}, ReductionOutput::kResult);
    EXPECT_TRUE(have_same_numbers(dtype, expected, result)) << dtype_name(dtype);
  }
}

// The sum of two float16 is more than the type holds; its average is not.
TEST_F(PackArithmeticTest, AnAverageOfLargeFloat16DoesNotOverflow) {
  const PackTypes types{DataType::kFloat16, DataType::kFloat32};
  Bytes tensor(kScaledElements * sizeof(Float16));
  for (size_t i = 0; i < kScaledElements; ++i) {
    write_element(tensor.data(), i, to_float16(60000));
  }
  Bytes sum = gathered(types, tensor, 1);
  for (size_t i = 0; i < kScaledElements; ++i) {
    write_element(sum.data(), i, 2 * read_element<float>(sum.data(), i));
  }

  EXPECT_TRUE(tensor == scattered(types, sum, {2, 1}));
}

}  // namespace
}  // namespace ringtune
