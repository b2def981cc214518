// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_decision.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "device/kernel_check.h"

namespace ringtune {

NcclDecision::NcclDecision(GpuOptions options, const EngineParts& engine, NcclCollectives& collectives)
    : options_(std::move(options)),
      layout_(engine.layout),
      log_(engine.log),
      collectives_(collectives),
      choice_(options_.operations == GpuOperations::kHost ? Choice::kHost : Choice::kNone) {}

Status NcclDecision::make(const std::shared_ptr<Device>& device, CollectiveContext& host) {
  NcclIntroduction own{};
  const Status introduced = introduce(device, own);
  own.has_nccl = introduced.ok();
  introduced.message().copy(own.text, sizeof(own.text) - 1);
  std::vector<NcclIntroduction> all;
  if (Status s = exchange_introductions(own, host, all); !s.ok()) return s;
  if (const std::string obstacle = find_obstacle(all, options_.operations); !obstacle.empty()) {
    if (options_.operations == GpuOperations::kNccl) {
      return {StatusCode::kConfigError, "RINGTUNE_GPU_OPERATIONS=nccl cannot be done: " + obstacle};
    }
    log_.write(LogLevel::kInfo, "tensors of GPUs go through host memory: " + obstacle);
    kernels_.reset();
    choice_.store(Choice::kHost);
    return Status::ok_status();
  }
  if (Status s = collectives_.open(device, library_, std::move(kernels_), host); !s.ok()) return s;
  log_.write(LogLevel::kDebug, "tensors of GPUs go by " + library_->name());
  if (Status s = collectives_.equip(common_equipment(all)); !s.ok()) return s;
  choice_.store(Choice::kNccl);
  return Status::ok_status();
}

Status NcclDecision::introduce(const std::shared_ptr<Device>& device, NcclIntroduction& own) {
  bool has_memory_pools = false;
  if (Status s = device->get_uuid(own.gpu); !s.ok()) return s;
  if (Status s = device->has_memory_pools(has_memory_pools); !s.ok()) return s;
  own.has_memory_pools = has_memory_pools;
  if (Status s = NcclLibrary::load(options_.nccl_library, library_); !s.ok()) return s;
  own.version = library_->version();
  const Device::Scope scope(*device);
  if (!scope.status().ok()) return scope.status();
  Status loaded = PackKernels::open(device, kernels_);
  if (loaded.ok()) {
    loaded = check_pack_kernels(*device, *kernels_);
  }
  if (device->is_lost()) return loaded;
  own.has_kernels = loaded.ok();
  loaded.message().copy(own.text, sizeof(own.text) - 1);
  return Status::ok_status();
}

NcclEquipment NcclDecision::common_equipment(std::span<const NcclIntroduction> all) const {
  const bool has_memory_pools = std::ranges::all_of(all, &NcclIntroduction::has_memory_pools);
  if (!has_memory_pools) {
    log_.write(LogLevel::kInfo, "allgather and alltoall go through host memory: a rank's GPU has no memory pools");
  }
  const auto without = std::ranges::find(all, false, &NcclIntroduction::has_kernels);
  if (without != all.end()) {
    log_.write(LogLevel::kInfo, "nothing is packed or scaled on GPUs: rank " + std::to_string(without - all.begin()) +
                                    " cannot run kernels: " + without->text);
  }
  return {has_memory_pools, without == all.end()};
}

}  // namespace ringtune
