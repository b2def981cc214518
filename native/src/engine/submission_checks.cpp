// SPDX-License-Identifier: Apache-2.0
#include "engine/submission_checks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace ringtune {
namespace {

constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kMaxGroupBytes = 256;
constexpr size_t kMaxDimensions = 64;

}  // namespace

Status check_submission(const Submission& submission) {
  const Signature& signature = submission.signature;
  if (submission.name.empty() || submission.name.size() > kMaxNameBytes || signature.group.size() > kMaxGroupBytes) {
    return {StatusCode::kMismatchError, "a tensor's name must have 1 ... " + std::to_string(kMaxNameBytes) +
                                            " bytes, not " + std::to_string(submission.name.size()) +
                                            ", and its group's at most " + std::to_string(kMaxGroupBytes)};
  }
  const std::vector<int64_t>& shape = signature.shape;
  const bool is_shape_legal = shape.size() <= kMaxDimensions && submission.rows >= 0 &&
                              std::all_of(shape.begin(), shape.end(), [](int64_t extent) { return extent >= 0; });
  if (!is_shape_legal) {
    return {StatusCode::kMismatchError, "the shape of tensor '" + submission.name +
                                            "' has a negative extent or more than " + std::to_string(kMaxDimensions) +
                                            " dimensions"};
  }
  return Status::ok_status();
}

Status check_reduction(const TensorArguments& tensor, const ReduceArguments& reduce) {
  if (!is_supported(reduce.op, tensor.dtype)) {
    return {StatusCode::kMismatchError, "'" + tensor.name +
                                            "' cannot be reduced: " + std::string(reduce_op_name(reduce.op)) + " of " +
                                            std::string(dtype_name(tensor.dtype)) + " is not supported"};
  }
  if (!std::isfinite(reduce.prescale) || !std::isfinite(reduce.postscale)) {
    return {StatusCode::kMismatchError, "the scales of '" + tensor.name + "' are " + std::to_string(reduce.prescale) +
                                            " and " + std::to_string(reduce.postscale) + "; both must be finite"};
  }
  return Status::ok_status();
}

Status check_splits(const TensorArguments& tensor, const std::vector<int64_t>& splits, int world_size) {
  const bool is_one_per_rank = splits.size() == static_cast<size_t>(world_size);
  const bool has_negative = std::any_of(splits.begin(), splits.end(), [](int64_t rows) { return rows < 0; });
  const int64_t rows = std::accumulate(splits.begin(), splits.end(), int64_t{0});
  if (is_one_per_rank && !has_negative && !tensor.shape.empty() && rows == tensor.shape.front()) {
    return Status::ok_status();
  }
  return {StatusCode::kMismatchError, "the splits of '" + tensor.name + "' must be " + std::to_string(world_size) +
                                          " numbers of rows, not negative, with the sum of the first dimension (" +
                                          std::to_string(tensor.shape.empty() ? 0 : tensor.shape.front()) +
                                          "); they are " + std::to_string(splits.size()) + " with the sum " +
                                          std::to_string(rows)};
}

}  // namespace ringtune
