// SPDX-License-Identifier: Apache-2.0
#include "collectives/adasum.h"

#include <bit>
#include <cmath>

#include "collective_world.h"
#include "collectives/element.h"

namespace ringtune {
namespace {

using testing::kSmallChunk;

constexpr DataType kFloats[] = {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64};

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

Vector combine(const Vector& a, const Vector& b) {
  const double ab = dot(a, b);
  const double weight_a = dot(a, a) == 0 ? 1 : 1 - ab / (2 * dot(a, a));
  const double weight_b = dot(b, b) == 0 ? 1 : 1 - ab / (2 * dot(b, b));
  Vector sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sum[i] = weight_a * a[i] + weight_b * b[i];
  }
  return sum;
}

// The tree of the paper, in double: the ranks beyond the power of two first, then neighbours, pairs of pairs, ...
Vector adasum_by_definition(std::vector<Vector> vectors) {
  const size_t paired = std::bit_floor(vectors.size());
  for (size_t extra = paired; extra < vectors.size(); ++extra) {
    vectors[extra - paired] = combine(vectors[extra - paired], vectors[extra]);
  }
  vectors.resize(paired);
  while (vectors.size() > 1) {
    std::vector<Vector> next;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      next.push_back(combine(vectors[i], vectors[i + 1]));
    }
    vectors = next;
  }
  return vectors.front();
}

Bytes stored(DataType dtype, const Vector& values) {
  return with_element(dtype, [&](auto element) {
    using E = decltype(element);
    Bytes bytes(values.size() * sizeof(typename E::Stored));
    for (size_t i = 0; i < values.size(); ++i) {
      write_element(bytes.data(), i, E::store(static_cast<typename E::Accumulator>(values[i])));
    }
    return bytes;
  });
}

Vector loaded(DataType dtype, const Bytes& bytes) {
  return with_element(dtype, [&](auto element) {
    using E = decltype(element);
    Vector values;
    for (size_t i = 0; i < bytes.size() / sizeof(typename E::Stored); ++i) {
      values.push_back(static_cast<double>(E::load(read_element<typename E::Stored>(bytes.data(), i))));
    }
    return values;
  });
}

// One rounding to the dtype, and the accumulators' loss.
double tolerance(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return 0x1.0p-10;
    case DataType::kBFloat16:
      return 0x1.0p-7;
    case DataType::kFloat32:
      return 1e-5;
    default:
      return 1e-13;
  }
}

class AdasumTest : public testing::EveryWorld {
 protected:
  // Returns each rank's result; in place on the odd ranks.
  std::vector<Bytes> adasum_all(const Reduction& reduction, const std::vector<Bytes>& inputs) {
    std::vector<Bytes> outputs(inputs.size());
    world_.run([&](CollectiveContext& context) {
      const auto rank = static_cast<size_t>(context.rank());
      outputs[rank] = rank % 2 == 1 ? inputs[rank] : Bytes(inputs[rank].size());
      const std::byte* input = rank % 2 == 1 ? outputs[rank].data() : inputs[rank].data();
      const size_t elements = inputs[rank].size() / element_bytes(reduction.dtype);
      const Status status = adasum({context, reduction, input, outputs[rank].data(), elements, kSmallChunk});
      EXPECT_TRUE(status.ok()) << status.message();
    });
    for (const Bytes& output : outputs) {
      EXPECT_TRUE(outputs.front() == output) << "ranks got different bits";
    }
    return outputs;
  }

  std::vector<Vector> vectors(size_t elements) const {
    std::vector<Vector> all;
    for (int rank = 0; rank < size(); ++rank) {
      all.emplace_back(elements);
      for (size_t i = 0; i < elements; ++i) {
        all.back()[i] = std::sin(static_cast<double>(i + 1) * (0.1 + 0.05 * rank)) + 0.3;
      }
    }
    return all;
  }
};

TEST_P(AdasumTest, FollowsThePaper) {
  for (const DataType dtype : kFloats) {
    for (const size_t elements : {0, 1, 3, 17, 1000, 20011}) {
      const Reduction reduction{dtype, ReduceOp::kAdasum, 1, 1, size()};
      std::vector<Bytes> inputs;
      std::vector<Vector> rounded;
      for (const Vector& vector : vectors(elements)) {
        inputs.push_back(stored(dtype, vector));
        rounded.push_back(loaded(dtype, inputs.back()));
      }

      const Vector result = loaded(dtype, adasum_all(reduction, inputs).front());

      const Vector expected = adasum_by_definition(rounded);
      ASSERT_EQ(expected.size(), result.size());
      for (size_t i = 0; i < elements; ++i) {
        ASSERT_NEAR(expected[i], result[i], tolerance(dtype) * std::max(1.0, std::abs(expected[i])))
            << dtype_name(dtype) << ", element " << i << " of " << elements;
      }
    }
  }
}

TEST_P(AdasumTest, EqualVectorsAreAveragedAndZerosLeaveTheOthers) {
  const Reduction reduction{DataType::kFloat32, ReduceOp::kAdasum, 1, 1, size()};
  const Vector vector{1, -2, 4};
  const Vector zeros(3);
  std::vector<Bytes> equal;
  std::vector<Bytes> lonely;
  for (int rank = 0; rank < size(); ++rank) {
    equal.push_back(stored(DataType::kFloat32, vector));
    lonely.push_back(stored(DataType::kFloat32, rank + 1 == size() ? vector : zeros));
  }

  EXPECT_EQ(vector, loaded(DataType::kFloat32, adasum_all(reduction, equal).front()));
  EXPECT_EQ(vector, loaded(DataType::kFloat32, adasum_all(reduction, lonely).front()));
}

TEST_P(AdasumTest, PerpendicularVectorsAreAddedAndScaled) {
  const Reduction reduction{DataType::kFloat64, ReduceOp::kAdasum, 0.5, 3, size()};
  std::vector<Bytes> inputs;
  Vector expected(static_cast<size_t>(size()));
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    Vector vector(expected.size());
    vector[rank] = static_cast<double>(rank + 1);
    expected[rank] = 1.5 * static_cast<double>(rank + 1);
    inputs.push_back(stored(DataType::kFloat64, vector));
  }

  EXPECT_EQ(expected, loaded(DataType::kFloat64, adasum_all(reduction, inputs).front()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, AdasumTest, ::testing::ValuesIn(testing::all_worlds()),
                         [](const auto& info) { return testing::world_name(info.param); });

}  // namespace
}  // namespace ringtune
