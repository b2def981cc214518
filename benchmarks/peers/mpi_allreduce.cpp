// SPDX-License-Identifier: Apache-2.0
// An MPI's float32 sum allreduce, in place, timed as every contestant of `ringtune bench` is; compiled by each MPI's
// own mpicxx.
//
//   mpirun -n RANKS mpi_allreduce NAME GROUP_MS MAX_CALLS SIZE_MS BYTES...
#include <algorithm>
#include <cstdlib>

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

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const timing::Scheme scheme = timing::parse_scheme(argc, argv, 2);
  MpiTeam team;
  constexpr size_t kPage = 4096;
  const size_t max_bytes = *std::max_element(scheme.sizes_bytes.begin(), scheme.sizes_bytes.end());
  auto* data = static_cast<float*>(std::aligned_alloc(kPage, (max_bytes / kPage + 1) * kPage));
  for (const size_t bytes : scheme.sizes_bytes) {
    const auto call = [data, bytes] {
      MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    timing::measure(argv[1], scheme, team, call, data, bytes);
  }
  std::free(data);
  MPI_Finalize();
  return 0;
}
