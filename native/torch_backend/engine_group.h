// SPDX-License-Identifier: Apache-2.0
// The C++ object of a process group of Python's: calls on plain CPU tensors go straight to the engine, all others to
// the methods of `ringtune.torch_backend.group.RingtuneGroup`.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PyProcessGroup.hpp>

#include "torch_backend/call.h"
#include "torch_backend/engine_work.h"

namespace ringtune_torch {

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class EngineGroup final : public c10d::PyProcessGroup {
 public:
  EngineGroup(int rank, int size) : PyProcessGroup(rank, size) {}

  const std::shared_ptr<CallBook>& book() const { return book_; }

  // Python's form has joined the group's world.
  void open(RingtuneDoor* door, std::shared_ptr<const PythonForm> python) {
    surroundings_ = std::make_shared<Surroundings>(door, book_, std::move(python));
  }
  // Time limit of calls that have none; 0 for the engine's.
  void set_limit(double limit_s) { limit_s_ = limit_s; }
  // Python's form collects calls.
  void set_coalescing(bool is_coalescing) { is_coalescing_ = is_coalescing; }

  // Each starts a call, or returns null where Python's form must serve it.
  WorkPointer try_allreduce(const Tensors& tensors, const c10d::AllreduceOptions& options, Kind kind) {
    if (options.sparseIndices || (kind == Kind::kAllreduce && tensors.size() != 1)) {
      return {};
    }
    return start({kind, tensors, tensors, options.timeout, options.reduceOp});
  }

  WorkPointer try_broadcast(const Tensors& tensors, const c10d::BroadcastOptions& options) {
    if (tensors.size() != 1) {
      return {};
    }
    return start({Kind::kBroadcast, tensors, tensors, options.timeout, c10d::ReduceOp::SUM, options.rootRank});
  }

  WorkPointer try_all_gather(const Tensors& outputs, const Tensors& inputs, const c10d::AllgatherOptions& options) {
    return start({Kind::kAllgather, outputs, inputs, options.timeout});
  }

  WorkPointer try_reduce_scatter(const Tensors& outputs, const Tensors& inputs,
                                 const c10d::ReduceScatterOptions& options) {
    return start({Kind::kReducescatter, outputs, inputs, options.timeout, options.reduceOp});
  }

  WorkPointer try_all_to_all(const at::Tensor& output, const at::Tensor& input, const std::vector<int64_t>& taken,
                             const std::vector<int64_t>& sent, const c10d::AllToAllOptions& options) {
    const auto from = elements(output, taken);
    const auto to = elements(input, sent);
    if (!from || !to) {
      return {};
    }
    return start({Kind::kAlltoall, {output}, {input}, options.timeout, c10d::ReduceOp::SUM, 0, *from, *to});
  }

  WorkPointer try_barrier(const c10d::BarrierOptions& options) {
    return start({Kind::kBarrier, {barrier_tensor_}, {barrier_tensor_}, options.timeout});
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    WorkPointer work = try_allreduce(tensors, options, Kind::kAllreduce);
    return work ? work : by_python("allreduce", tensors, options);
  }

  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    WorkPointer work = try_allreduce(tensors, options, Kind::kAllreduceCoalesced);
    return work ? work : by_python("allreduce_coalesced", tensors, options);
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    WorkPointer work = try_broadcast(tensors, options);
    return work ? work : by_python("broadcast", tensors, options);
  }

  WorkPointer all_gather_single(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    WorkPointer work = try_all_gather({output}, {input}, options);
    return work ? work : by_python("all_gather_single", output, input, options);
  }

  WorkPointer all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    WorkPointer work = try_all_gather(outputs, inputs, options);
    return work ? work : by_python("all_gather_single_coalesced", outputs, inputs, options);
  }

  WorkPointer reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options) override {
    WorkPointer work = try_reduce_scatter({output}, {input}, options);
    return work ? work : by_python("reduce_scatter_single", output, input, options);
  }

  WorkPointer reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override {
    WorkPointer work = try_reduce_scatter(outputs, inputs, options);
    return work ? work : by_python("reduce_scatter_single_coalesced", outputs, inputs, options);
  }

  WorkPointer all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& taken,
                                std::vector<int64_t>& sent, const c10d::AllToAllOptions& options) override {
    WorkPointer work = try_all_to_all(output, input, taken, sent, options);
    return work ? work : by_python("all_to_all_single", output, input, taken, sent, options);
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    WorkPointer work = try_barrier(options);
    return work ? work : by_python("barrier", options);
  }

 private:
  WorkPointer start(const Call& call) {
    if (surroundings_ == nullptr || is_coalescing_ || !is_served(call, size_)) {
      return {};
    }
    const Recipe* recipe = find_recipe(call);
    if (recipe == nullptr) {
      return {};
    }
    const Unlocked unlocked;
    while (true) {
      uint64_t holder = 0;
      KeptPointer earlier;
      std::vector<KeptPointer> ended;
      {
        const std::lock_guard lock(book_->mutex());
        if (book_->is_closed()) {
          return {};
        }
        ended = book_->end_completed();
        const std::shared_ptr<CallText> text = book_->find(recipe->text);
        holder = book_->holder(*text);
        if (holder == 0) {
          return begin(call, *recipe, text);
        }
        earlier = book_->work_of(holder);
      }
      if (earlier) {
        earlier->finish();
      } else {
        surroundings_->finish_elsewhere(holder);
      }
    }
  }

  // Gives a call to the engine; the book's mutex is held.
  WorkPointer begin(const Call& call, const Recipe& recipe, const std::shared_ptr<CallText>& text) {
    const bool has_own_limit = call.timeout.count() > 0;
    auto work = c10::make_intrusive<EngineWork>(surroundings_, text->text, call.outputs, call.inputs,
                                                has_own_limit ? Seconds(call.timeout).count() : limit_s_.load());
    const Requests requests(call, recipe, book_->next_name(*text), size_);
    if (!work->submit(requests.list())) {  // a refused call has no number
      surroundings_->raise(surroundings_->explained(text->text, work->fault()));
    }
    work->set_number(book_->begin(text, work));
    return work;
  }

  // Null where the engine does not serve such calls as this form makes them.
  const Recipe* find_recipe(const Call& call) {
    std::string key = key_of(call);
    {
      const std::lock_guard lock(recipes_mutex_);
      if (const auto known = recipes_.find(key); known != recipes_.end()) {
        return known->second ? &*known->second : nullptr;
      }
    }
    std::optional<Recipe> recipe = ask_for_recipe(call);
    const std::lock_guard lock(recipes_mutex_);
    const auto& entry = recipes_.emplace(std::move(key), std::move(recipe)).first->second;
    return entry ? &*entry : nullptr;
  }

  std::optional<Recipe> ask_for_recipe(const Call& call) const {
    const py::gil_scoped_acquire locked;
    const py::object answer =
        surroundings_->python->recipe(name_of(call.kind), c10d::ReduceOp(call.operation), call.inputs, call.root);
    if (answer.is_none()) {
      return std::nullopt;
    }
    auto [text, dtypes, reduction, prescale, postscale] =
        answer.cast<std::tuple<std::string, std::vector<uint32_t>, uint32_t, double, double>>();
    return Recipe{std::move(text), std::move(dtypes), reduction, prescale, postscale};
  }

  // Everything that the recipe depends on. The text of an alltoall has no sizes.
  static std::string key_of(const Call& call) {
    std::string key;
    const auto add = [&key](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
    add(static_cast<int64_t>(call.kind));
    add(static_cast<int64_t>(call.operation));
    add(call.root);
    for (const at::Tensor& input : call.inputs) {
      add(static_cast<int64_t>(input.scalar_type()));
      if (call.kind != Kind::kAlltoall) {
        add(input.dim());
        std::ranges::for_each(input.sizes(), add);
      }
    }
    return key;
  }

  // Elements for each rank, of a tensor that is parted by rows; empty where it cannot be so.
  std::optional<std::vector<int64_t>> elements(const at::Tensor& tensor, const std::vector<int64_t>& rows) const {
    const int64_t total = tensor.dim() > 0 ? tensor.size(0) : 1;
    const int64_t row = total > 0 ? tensor.numel() / total : 0;
    std::vector<int64_t> found(static_cast<size_t>(size_), total / size_ * row);
    if (rows.empty()) {
      return total % size_ == 0 ? std::optional(found) : std::nullopt;
    }
    if (rows.size() != found.size() || std::accumulate(rows.begin(), rows.end(), int64_t{0}) != total) {
      return std::nullopt;
    }
    std::ranges::transform(rows, found.begin(), [row](int64_t count) { return count * row; });
    return found;
  }

  template <typename... Arguments>
  WorkPointer by_python(const char* name, const Arguments&... arguments) {
    const py::gil_scoped_acquire locked;
    const auto self = c10::intrusive_ptr<c10d::ProcessGroup>::unsafe_reclaim_from_nonowning(this);
    return c10::make_intrusive<PyWorkHolder>(surroundings_->python->methods[name](self, arguments...));
  }

  const std::shared_ptr<CallBook> book_ = std::make_shared<CallBook>();
  const at::Tensor barrier_tensor_ = at::zeros({1}, at::kByte);
  std::shared_ptr<Surroundings> surroundings_;  // null before `open`
  std::atomic<double> limit_s_{0};
  std::atomic<bool> is_coalescing_{false};
  std::mutex recipes_mutex_;
  std::unordered_map<std::string, std::optional<Recipe>> recipes_;  // stay where they are
};

}  // namespace ringtune_torch
