// SPDX-License-Identifier: Apache-2.0
// An MPI's float32 sum allreduce, in place, timed as every contestant of `ringtune bench` is; compiled by each MPI's
// own mpicxx.
//
//   mpirun -n RANKS mpi_allreduce NAME GROUP_MS MAX_CALLS SIZE_MS WORKLOAD_MS SUBJECT...
//
// A workload's step in the ways in which a program can write it:
//   one by one  MPI_Allreduce of tensor after tensor
//   at once     MPI_Iallreduce of every tensor, then MPI_Waitall
//   packed      the tensors are copied into one buffer, which is reduced, and back
//   flat        the tensors lie in one buffer from the beginning
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <mpi.h>

#include "allreduce_timing.h"

namespace {

class MpiTeam {
 public:
  MpiTeam() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  long agree(long number) {
    MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return number;
  }

 private:
  int rank_ = 0;
  int ranks_ = 0;
};

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<float, Free>;

Memory allocate(size_t bytes) {
  constexpr size_t kPage = 4096;
  return Memory(static_cast<float*>(std::aligned_alloc(kPage, (bytes / kPage + 1) * kPage)));
}

void allreduce(timing::Tensor tensor) {
  MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// A workload's gradients, twice: each in memory of its own, and as pieces of one buffer.
class Gradients {
 public:
  explicit Gradients(const timing::Workload& workload)
      : bytes_(std::reduce(workload.tensors_bytes.begin(), workload.tensors_bytes.end())),
        buffer_(allocate(bytes_)),
        requests_(workload.tensors_bytes.size()) {
    float* piece = buffer_.get();
    for (const size_t bytes : workload.tensors_bytes) {
      const size_t elements = bytes / sizeof(float);
      memory_.push_back(allocate(bytes));
      apart_.emplace_back(memory_.back().get(), elements);
      pieces_.emplace_back(piece, elements);
      piece += elements;
    }
  }

  const std::vector<timing::Tensor>& apart() const { return apart_; }
  const std::vector<timing::Tensor>& pieces() const { return pieces_; }

  void reduce_one_by_one() { std::for_each(apart_.begin(), apart_.end(), &allreduce); }

  void reduce_at_once() {
    for (size_t i = 0; i < apart_.size(); ++i) {
      MPI_Iallreduce(MPI_IN_PLACE, apart_[i].data(), static_cast<int>(apart_[i].size()), MPI_FLOAT, MPI_SUM,
                     MPI_COMM_WORLD, &requests_[i]);
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

  void reduce_packed() {
    copy(apart_, pieces_);
    reduce_flat();
    copy(pieces_, apart_);
  }

  void reduce_flat() { allreduce({buffer_.get(), bytes_ / sizeof(float)}); }

 private:
  static void copy(const std::vector<timing::Tensor>& sources, const std::vector<timing::Tensor>& targets) {
    for (size_t i = 0; i < sources.size(); ++i) {
      std::copy(sources[i].begin(), sources[i].end(), targets[i].begin());
    }
  }

  size_t bytes_;
  Memory buffer_;
  std::vector<Memory> memory_;
  std::vector<timing::Tensor> apart_;
  std::vector<timing::Tensor> pieces_;
  std::vector<MPI_Request> requests_;
};

void measure_sizes(const std::string& name, const timing::Scheme& scheme, MpiTeam& team) {
  const Memory memory = allocate(scheme.max_bytes());
  for (const size_t bytes : scheme.sizes_bytes) {
    const timing::Tensor data(memory.get(), bytes / sizeof(float));
    timing::measure(name, "", scheme, team, [data] { allreduce(data); }, {data});
  }
}

void measure_workload(const std::string& name, const timing::Workload& workload, const timing::Scheme& scheme,
                      MpiTeam& team) {
  Gradients gradients(workload);
  const auto measure = [&](const char* way, void (Gradients::*step)(), const std::vector<timing::Tensor>& tensors) {
    const auto call = [&gradients, step] { (gradients.*step)(); };
    timing::measure(name + ", " + way, workload.name, scheme, team, call, tensors);
  };
  measure("one by one", &Gradients::reduce_one_by_one, gradients.apart());
  measure("at once", &Gradients::reduce_at_once, gradients.apart());
  measure("packed", &Gradients::reduce_packed, gradients.apart());
  measure("flat", &Gradients::reduce_flat, gradients.pieces());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const timing::Scheme scheme = timing::parse_scheme(argc, argv, 2);
  MpiTeam team;
  measure_sizes(argv[1], scheme, team);
  for (const timing::Workload& workload : scheme.workloads) {
    measure_workload(argv[1], workload, scheme, team);
  }
  MPI_Finalize();
  return 0;
}
