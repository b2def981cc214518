// SPDX-License-Identifier: Apache-2.0
// TensorFlow operations that hand tensors to the engine as soon as they are computed, so that communication overlaps
// with the rest of the graph: see docs/reference/tensorflow.md. Compiled by `python -m ringtune.tensorflow_op`.
//
// The engine tells the end of an operation on its communication thread. Whatever TensorFlow runs next must not run
// there, for it may wait for the engine: one thread of this library takes the news on.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/submission_abi.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::CancellationToken;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Not stateful: TensorFlow runs stateful operations of a function one after the other.
REGISTER_OP("RingtuneAllreduce")
    .Input("door: int64")
    .Input("tensor: T")
    .Input("scales: double")  // before and after; no attribute has 64 bits
    .Output("combined: T")
    .Attr("T: {uint8, int8, int32, int64, half, bfloat16, float, double, bool, int16, uint16, uint32, uint64}")
    .Attr("tensor_name: string")
    .Attr("dtype_number: int")
    .Attr("reduction: int")
    .Attr("is_gradient: bool = false")
    .Attr("group: string = ''")
    .Attr("group_size: int = 0")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* shapes) {
      shapes->set_output(0, shapes->input(1));
      return absl::OkStatus();
    });

// Takes the results as data: TensorFlow leaves out a stateless operation on which others depend by its end alone.
REGISTER_OP("RingtuneMarkStep")
    .Input("door: int64")
    .Input("results: types")
    .Attr("types: list(type)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// One execution of RingtuneAllreduce. Holds both buffers until the engine is done with them, which is later than the
// end of the execution where TensorFlow cancels it.
class Call {
 public:
  Call(OpKernelContext* context, AsyncOpKernel::DoneCallback done, const Tensor& input, const Tensor& output)
      : context_(context), done_(std::move(done)), input_(input), output_(output) {
    for (int dimension = 0; dimension < input.dims(); ++dimension) {
      shape_.push_back(input.dim_size(dimension));
    }
  }

  // Makes cancellation end this call. False where TensorFlow has cancelled it already.
  static bool listen(const std::shared_ptr<Call>& call) {
    call->cancellation_ = call->context_->cancellation_manager();
    if (call->cancellation_ == nullptr) {
      return true;
    }
    call->token_ = call->cancellation_->get_cancellation_token();
    return call->cancellation_->RegisterCallback(call->token_, [call] { call->cancel(); });
  }

  // Leaves the buffers to the engine.
  void cancel() {
    if (!is_ended_.exchange(true)) {
      tell(absl::CancelledError("the step was cancelled"));
    }
  }

  // The engine is done. At the first end alone may the context be touched: afterwards it may be gone.
  void end(const absl::Status& status) {
    if (is_ended_.exchange(true)) {
      return;
    }
    if (cancellation_ != nullptr) {
      cancellation_->DeregisterCallback(token_);
    }
    input_ = output_ = Tensor();  // so that the next operation may overwrite the result
    tell(status);
  }

  const void* input() const { return input_.data(); }
  void* output() { return output_.data(); }
  uint64_t output_bytes() const { return output_.TotalBytes(); }
  const int64_t* shape() const { return shape_.data(); }
  uint32_t dimensions() const { return static_cast<uint32_t>(shape_.size()); }

 private:
  void tell(const absl::Status& status) {
    if (!status.ok()) {
      context_->SetStatus(status);
    }
    std::exchange(done_, nullptr)();
  }

  OpKernelContext* context_;
  AsyncOpKernel::DoneCallback done_;
  Tensor input_;
  Tensor output_;
  std::vector<int64_t> shape_;
  CancellationManager* cancellation_ = nullptr;
  CancellationToken token_ = CancellationManager::kInvalidToken;
  std::atomic<bool> is_ended_{false};
};

// The thread that passes the engine's results on to TensorFlow.
class Messenger {
 public:
  // Never destroyed: the engine may have something to tell while the process exits.
  static Messenger& instance() {
    static Messenger* const messenger = new Messenger;
    return *messenger;
  }

  void post(std::shared_ptr<Call> call, absl::Status status) {
    bool is_first = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_first = news_.empty();
      news_.emplace_back(std::move(call), std::move(status));
    }
    if (is_first) {
      has_news_.notify_one();
    }
  }

 private:
  using News = std::vector<std::pair<std::shared_ptr<Call>, absl::Status>>;

  Messenger() {
    std::thread([this] { run(); }).detach();
  }

  [[noreturn]] void run() {
    while (true) {
      News news;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        has_news_.wait(lock, [this] { return !news_.empty(); });
        news.swap(news_);
      }
      for (auto& [call, status] : news) {
        call->end(status);
      }
    }
  }

  std::mutex mutex_;  // guards news_
  std::condition_variable has_news_;
  News news_;
};

// TensorFlow takes ValueError and TypeError of a numpy function likewise, so that both ways end alike.
absl::Status status_of(const char* error) {
  if (error == nullptr) {
    return absl::OkStatus();
  }
  const std::string_view text(error);
  for (const std::string_view wrong_use : {"ConfigError:", "WrongTypeError:", "MismatchError:"}) {
    if (text.substr(0, wrong_use.size()) == wrong_use) {
      return absl::InvalidArgumentError(text);
    }
  }
  return absl::UnknownError(text);
}

// Callback of the engine; `context` is a shared pointer to the call.
void on_end(void* context, const char* error) {
  const std::unique_ptr<std::shared_ptr<Call>> call(static_cast<std::shared_ptr<Call>*>(context));
  Messenger::instance().post(*call, status_of(error));
}

RingtuneDoor* door_of(OpKernelContext* context) {
  return reinterpret_cast<RingtuneDoor*>(static_cast<uintptr_t>(context->input(0).scalar<int64_t>()()));
}

class AllreduceKernel : public AsyncOpKernel {
 public:
  explicit AllreduceKernel(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("tensor_name", &name_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dtype_number", &dtype_));
    OP_REQUIRES_OK(construction, construction->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(construction, construction->GetAttr("is_gradient", &is_gradient_));
    OP_REQUIRES_OK(construction, construction->GetAttr("group", &group_));
    OP_REQUIRES_OK(construction, construction->GetAttr("group_size", &group_size_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& input = context->input(1);
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->forward_input_or_allocate_output({1}, 0, input.shape(), &output), done);
    RingtuneDoor* door = door_of(context);
    const auto scales = context->input(2).flat<double>();
    const double prescale = scales(0);
    const double postscale = scales(1);
    const auto call = std::make_shared<Call>(context, std::move(done), input, *output);
    if (!Call::listen(call)) {
      call->cancel();
      return;
    }
    // From here on the context may be gone at any time.
    RingtuneRequest request{};
    request.collective = kRingtuneAllreduce;
    request.dtype = static_cast<uint32_t>(dtype_);
    request.name = name_.c_str();
    request.input = call->input();
    request.output = call->output();
    request.output_bytes = call->output_bytes();
    request.shape = call->shape();
    request.dimensions = call->dimensions();
    request.reduction = static_cast<uint32_t>(reduction_);
    request.prescale = prescale;
    request.postscale = postscale;
    request.is_gradient = is_gradient_ ? 1U : 0U;
    request.group_size = static_cast<uint32_t>(group_size_);
    request.group = group_.c_str();
    door->table->submit(door, &request, &on_end, new std::shared_ptr<Call>(call));
  }

 private:
  std::string name_;
  int dtype_ = 0;
  int reduction_ = 0;
  bool is_gradient_ = false;
  std::string group_;
  int group_size_ = 0;
};

class MarkStepKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    RingtuneDoor* door = door_of(context);
    door->table->mark_step(door);
  }
};

REGISTER_KERNEL_BUILDER(Name("RingtuneAllreduce").Device(tensorflow::DEVICE_CPU), AllreduceKernel);
REGISTER_KERNEL_BUILDER(Name("RingtuneMarkStep").Device(tensorflow::DEVICE_CPU), MarkStepKernel);

}  // namespace

// Asked before the operations are used: an engine of another version has another table.
extern "C" uint32_t ringtune_submission_version() { return kRingtuneSubmissionVersion; }
