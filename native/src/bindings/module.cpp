// SPDX-License-Identifier: Apache-2.0
// ringtune._engine: the binding. No logic; see native/python/ringtune/_engine.pyi for the documentation.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/descriptors.h"
#include "bindings/algorithm_table_binding.h"
#include "bindings/collective_layer_binding.h"
#include "bindings/config_binding.h"
#include "bindings/engine_handle.h"
#include "bindings/errors.h"
#include "bindings/lap_times_binding.h"
#include "bindings/last_word.h"
#include "bindings/links_factories.h"
#include "bindings/mpi_end.h"
#include "bindings/parse_enum.h"
#include "bindings/registered_array.h"
#include "bindings/submissions_binding.h"
#include "bindings/tls_binding.h"
#include "collectives/allreduce.h"
#include "collectives/message_sizes.h"
#include "engine/gpu/gpu_tensors.h"
#include "engine/step_rhythm.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace ringtune {
namespace {

int create_segment(int local_size) {
  int fd = -1;
  raise_unless_ok(Segment::create(local_size, fd));
  return fd;
}

LogLevel parse_log_level(const std::string& name) {
  constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warning", "error"};
  for (size_t level = 0; level < kNames.size(); ++level) {
    if (name == kNames[level]) {
      return static_cast<LogLevel>(level);
    }
  }
  throw StatusException({StatusCode::kConfigError, "log level '" + name + "' is none of debug, info, warning, error"});
}

GpuOperations parse_gpu_operations(const std::string& name) {
  constexpr std::array<std::string_view, 3> kNames{"auto", "nccl", "host"};
  for (size_t operations = 0; operations < kNames.size(); ++operations) {
    if (name == kNames[operations]) {
      return static_cast<GpuOperations>(operations);
    }
  }
  throw StatusException({StatusCode::kConfigError, "gpu_operations '" + name + "' is none of auto, nccl, host"});
}

// Closes the descriptors that the engine takes over, should it not come to be.
class TakenDescriptors {
 public:
  void add(int& fd) {
    const bool is_given = fd >= 0;
    fd = above_standard_streams(fd);
    if (is_given && fd < 0) {
      throw StatusException({StatusCode::kConfigError,
                             "no file descriptor is left for the engine; raise the limit of open files (ulimit -n)"});
    }
    fds_.push_back(fd);
  }
  void add(std::vector<int>& fds) {
    for (int& fd : fds) {
      add(fd);
    }
  }
  ~TakenDescriptors() {
    for (const int fd : fds_) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }
  TakenDescriptors() = default;
  TakenDescriptors(const TakenDescriptors&) = delete;
  TakenDescriptors& operator=(const TakenDescriptors&) = delete;

  void release() { fds_.clear(); }

 private:
  std::vector<int> fds_;
};

void construct(EngineHandle* self, int rank, int world_size, std::vector<int> hosts, int segment_fd,
               std::vector<int> pidfds, std::vector<int> pids, std::vector<int> control_fds, std::vector<int> data_fds,
               const std::string& mpi_plugin, int mpi_communicator, const EngineConfig& config, double stall_warn_s,
               double timeout_s, const std::string& log_level, const std::string& gpu_operations,
               const std::string& nccl_library, TlsSessions tls) {
  TakenDescriptors segment_descriptor;
  segment_descriptor.add(segment_fd);
  TakenDescriptors taken;
  taken.add(pidfds);
  taken.add(control_fds);
  taken.add(data_fds);
  if (hosts.size() != static_cast<size_t>(world_size)) {
    throw StatusException({StatusCode::kConfigError, "hosts must have one entry per rank"});
  }
  EngineOptions options;
  options.rank = rank;
  options.hosts = std::move(hosts);
  options.transport = {std::move(pidfds), pids, std::move(control_fds), seconds_to_ns(timeout_s), tls};
  options.config = config;
  options.stall_warn_s = stall_warn_s;
  options.timeout_s = timeout_s;
  options.log_level = parse_log_level(log_level);
  options.gpu = {parse_gpu_operations(gpu_operations), nccl_library};
  if (!mpi_plugin.empty()) {
    raise_unless_ok(
        mpi_links_factory(mpi_plugin, mpi_communicator, std::move(pids), seconds_to_ns(timeout_s), options.make_links));
  } else if (!data_fds.empty()) {
    options.make_links =
        tcp_links_factory(std::move(pids), std::move(data_fds), seconds_to_ns(timeout_s), std::move(tls));
  }
  raise_unless_ok(Engine::check_options(options));
  std::shared_ptr<Segment> segment;
  const Layout layout(rank, options.hosts);
  raise_unless_ok(Segment::map(segment_fd, layout.local_size(), segment));
  taken.release();
  new (self) EngineHandle(std::move(segment), std::move(options));
}

// The GIL stays locked: a fork never finds the arena's own lock taken.
RegisteredArray allocate_registered(EngineHandle& self, size_t size_bytes) {
  std::shared_ptr<std::byte> memory;
  raise_unless_ok(self.engine().allocate_registered(size_bytes, memory));
  return as_array(std::move(memory), size_bytes);
}

uint64_t apply_config(EngineHandle& self, const EngineConfig& config) {
  uint64_t epoch = 0;
  raise_unless_ok(self.engine().apply_config(config, epoch));
  return epoch;
}

void tell_tuning(EngineHandle& self, bool is_finished) { raise_unless_ok(self.engine().tell_tuning(is_finished)); }

nb::dict counters(EngineHandle& self) {
  nb::dict values;
  for (const auto& [name, value] : self.engine().counters()) {
    values[name.c_str()] = value;
  }
  return values;
}

std::optional<Window> next_window(EngineHandle& self, double timeout_s) {
  const nb::gil_scoped_release unlocked;
  return self.tuner().next_window(seconds_to_ns(timeout_s));
}

std::optional<std::string> void_reason(const Window& window) {
  return window.void_reason == VoidReason::kNone ? std::nullopt
                                                 : std::optional<std::string>(void_reason_name(window.void_reason));
}

void bind_window(nb::module_& module) {
  nb::class_<Window>(module, "Window")
      .def_ro("epoch", &Window::epoch)
      .def_ro("last_step", &Window::last_step)
      .def_ro("step_ms", &Window::step_ms)
      .def_ro("bytes_per_step", &Window::bytes_per_step)
      .def_ro("tensor_set", &Window::tensor_set)
      .def_prop_ro("void_reason", &void_reason)
      .def_ro("was_cut", &Window::was_cut);
}

// Named as the fields of ringtune.tuner's EngineFacts.
nb::dict engine_facts() {
  nb::dict facts;
  facts["chunk_bytes"] = kAllreduceChunkBytes;
  facts["chunk_between_hosts_bytes"] = kChunkBytesBetweenHosts;
  facts["direct_max_bytes"] = kDirectMaxBytes;
  facts["posted_bytes"] = kPostBytes;
  facts["whole_block_max_bytes"] = kMaxWholeBlockBytes;
  facts["stage_bytes"] = kStageBytes;
  facts["stage_max_chunks"] = kMaxStageDepth;
  facts["overlapped_chunks"] = kOverlappedChunks;
  facts["cache_line_bytes"] = kCacheLine;
  facts["skewed_min_chunks"] = kMinSkewedChunks;
  facts["skewed_chunk_min_bytes"] = kMinSkewedChunkBytes;
  facts["registered_min_bytes"] = kMinRegisteredBytes;
  facts["distant_round_trip_us"] = kDistantRoundTripNs * 1000 / kNsPerMs;
  facts["distant_link_bytes_per_s"] = kDistantLinkBytesPerS;
  facts["in_flight_max_bytes"] = kMaxInFlightBytes;
  facts["hold_margin_divisor"] = kHoldMarginDivisor;
  return facts;
}

// Measurements for the tuner, and traces for people.
void bind_observation(nb::class_<EngineHandle>& engine) {
  engine
      .def(
          "begin_window",
          [](EngineHandle& self, uint64_t epoch, uint64_t settle_steps, uint64_t steps, double limit_ms) {
            self.tuner().begin_window({epoch, settle_steps, steps, limit_ms});
          },
          "epoch"_a, "settle_steps"_a, "steps"_a, "limit_ms"_a)
      .def("next_window", &next_window, "timeout_s"_a)
      .def("tell_tuning", &tell_tuning, "is_finished"_a)
      .def("measure_host_rates", [](EngineHandle& self) { raise_unless_ok(self.engine().measure_host_rates()); })
      .def("host_rates",
           [](EngineHandle& self) {
             const HostRates rates = self.engine().host_rates();
             return nb::make_tuple(rates.bytes_per_s, rates.measurements, rates.is_uneven);
           })
      .def(
          "set_beacon", [](EngineHandle& self, uint8_t beacon) { self.engine().set_beacon(beacon); }, "beacon"_a)
      .def(
          "beacon_of", [](EngineHandle& self, int rank) { return self.engine().beacon_of(rank); }, "rank"_a)
      .def("is_tuning_finished", [](EngineHandle& self) { return self.engine().is_tuning_finished(); })
      .def(
          "start_timeline",
          [](EngineHandle& self, const std::string& path, bool mark_cycles) {
            Timeline& timeline = self.engine().timeline();
            const nb::gil_scoped_release unlocked;
            raise_unless_ok(timeline.start(path, mark_cycles));
          },
          "path"_a, "mark_cycles"_a)
      .def("stop_timeline",
           [](EngineHandle& self) {
             Timeline& timeline = self.engine().timeline();
             const nb::gil_scoped_release unlocked;
             timeline.stop();
           })
      .def(
          "timeline_event",
          [](EngineHandle& self, const std::string& name, const std::string& detail) {
            self.engine().timeline().instant(name, detail);
          },
          "name"_a, "detail"_a);
}

using CallSignature = std::pair<std::string, std::vector<int64_t>>;

std::optional<std::vector<CallSignature>> round_of_calls(EngineHandle& self) {
  const std::optional<std::vector<Call>> calls = self.engine().round_of_calls();
  if (!calls) return std::nullopt;
  std::vector<CallSignature> found;
  for (const Call& call : *calls) {
    found.emplace_back(dtype_name(call.dtype), call.shape);
  }
  return found;
}

void bind_engine(nb::module_& module) {
  nb::class_<EngineHandle> engine(module, "Engine");
  engine
      .def("__init__", &construct, nb::kw_only(), "rank"_a, "world_size"_a, "hosts"_a, "segment_fd"_a, "pidfds"_a,
           "pids"_a, "control_fds"_a, "data_fds"_a, "mpi_plugin"_a, "mpi_communicator"_a, "config"_a, "stall_warn_s"_a,
           "timeout_s"_a, "log_level"_a, "gpu_operations"_a = "auto", "nccl_library"_a = "", "tls"_a = TlsSessions())
      .def_prop_ro("rank", [](EngineHandle& self) { return self.engine().rank(); })
      .def_prop_ro("world_size", [](EngineHandle& self) { return self.engine().world_size(); })
      .def("allocate_registered", &allocate_registered, "size_bytes"_a)
      .def("mark_step", [](EngineHandle& self) { return self.engine().mark_step(); })
      .def(
          "add_gradients",
          [](EngineHandle& self, uint64_t tensor_set, uint64_t bytes) {
            self.engine().add_gradients(tensor_set, bytes);
          },
          "tensor_set"_a, "bytes"_a)
      .def("mark_rounds", [](EngineHandle& self) { self.engine().mark_rounds(); })
      .def("round_of_calls", &round_of_calls)
      .def("mark_device_step", [](EngineHandle& self) { return self.engine().mark_step(true); })
      .def(
          "time_device_step",
          [](EngineHandle& self, uint64_t step, int64_t end_ns) { self.engine().time_device_step(step, end_ns); },
          "step"_a, "end_ns"_a)
      .def("submission_door", [](EngineHandle& self) { return reinterpret_cast<uintptr_t>(self.door()); })
      .def("apply_config", &apply_config, "config"_a)
      .def("config", [](EngineHandle& self) { return self.engine().config(); })
      .def("config_epoch", [](EngineHandle& self) { return self.engine().config_epoch(); })
      .def("counters", &counters)
      .def_prop_ro(
          "laps", [](EngineHandle& self) -> LapTimes& { return self.engine().laps(); },
          nb::rv_policy::reference_internal)
      .def("shutdown",
           [](EngineHandle& self) {
             const nb::gil_scoped_release unlocked;
             self.shutdown();
           })
      .def("abandon_after_fork", &EngineHandle::abandon_after_fork);
  bind_submissions(module, engine);
  bind_observation(engine);
  bind_algorithm_table(module, engine);
}

void tell_exit_code(int fd, const std::vector<nb::bytes>& words, std::shared_ptr<TlsSession> tls) {
  if (words.size() != kExitCodes) {
    throw StatusException({StatusCode::kConfigError, "words must have one entry per exit code"});
  }
  std::vector<std::string> texts;
  for (const nb::bytes& word : words) {
    texts.emplace_back(word.c_str(), word.size());
  }
  say_at_exit(fd, std::move(texts), std::move(tls));
}

}  // namespace
}  // namespace ringtune

NB_MODULE(_engine, module) {
  // A tuning thread that outlives the interpreter's last look around is no leak worth a report to the user.
  nb::set_leak_warnings(false);
  ringtune::register_errors();
  module.def("create_segment", &ringtune::create_segment, "local_size"_a);
  module.def("engine_facts", &ringtune::engine_facts);
  module.def("tell_exit_code", &ringtune::tell_exit_code, "fd"_a, "words"_a, "tls"_a = nb::none());
  module.def(
      "end_mpi_at_exit",
      [](intptr_t finalize, intptr_t abort, intptr_t world) {
        ringtune::end_mpi_at_exit({reinterpret_cast<decltype(ringtune::LoadedMpi::finalize)>(finalize),
                                   reinterpret_cast<decltype(ringtune::LoadedMpi::abort)>(abort), world});
      },
      "finalize"_a, "abort"_a, "world"_a);
  module.def("allreduce_algorithms", [] {
    std::vector<std::string> names;
    for (const std::string_view name : ringtune::configurable_allreduce_algorithms()) {
      names.emplace_back(name);
    }
    return names;
  });
  nb::list dtypes;
  for (int number = 0; number < ringtune::kDataTypeCount; ++number) {
    dtypes.append(std::string(ringtune::dtype_name(static_cast<ringtune::DataType>(number))));
  }
  module.attr("DTYPES") = nb::tuple(dtypes);
  module.def(
      "is_over_limit",
      [](const std::vector<double>& step_ms, double limit_ms) { return ringtune::is_over_limit(step_ms, limit_ms); },
      "step_ms"_a, "limit_ms"_a);
  module.def(
      "is_pause",
      [](double gap_ms, const std::vector<double>& recent_ms) { return ringtune::is_pause(gap_ms, recent_ms); },
      "gap_ms"_a, "recent_ms"_a);
  module.attr("PAUSE_MEDIANS") = ringtune::kPauseMedians;
  module.attr("PAUSE_MIN_MS") = ringtune::kPauseMinMs;
  module.attr("RECENT_STEPS") = ringtune::kRecentSteps;
  module.attr("MIN_RECENT_STEPS") = ringtune::kMinRecentSteps;
  module.def("has_cuda", [] {
    const nb::gil_scoped_release unlocked;
    return ringtune::has_cuda();
  });
  module.attr("SUBMISSION_VERSION") = kRingtuneSubmissionVersion;
  ringtune::bind_config(module);
  ringtune::bind_window(module);
  ringtune::bind_tls(module);
  ringtune::bind_engine(module);
  ringtune::bind_lap_times(module);
  ringtune::bind_collective_layer(module);
}
