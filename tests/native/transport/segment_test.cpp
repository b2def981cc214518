// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segment.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "closed_streams.h"
#include "transport/cluster.h"
#include "transport/shm/arenas.h"
#include "transport/shm/failure_record.h"

namespace ringtune {
namespace {

TEST(Segment, RegionsDoNotOverlapAndStagesAreStaggered) {
  const auto segment = testing::host_segment(3);
  const auto at = [](auto* pointer) { return reinterpret_cast<uintptr_t>(pointer); };

  EXPECT_GE(at(&segment->block(0)), at(&segment->header()) + sizeof(SegmentHeader));
  EXPECT_GE(at(segment->stage(1)), at(segment->stage(0)) + kStageBytes);
  EXPECT_NE(0u, (at(segment->stage(1)) - at(segment->stage(0))) % (1 << 20));
  EXPECT_LE(at(segment->stage(2)) + kStageBytes, at(&segment->header()) + Segment::total_bytes(3));
}

TEST(Segment, AnotherNumberOfRanksIsRefused) {
  int fd = -1;
  std::shared_ptr<Segment> segment;
  ASSERT_TRUE(Segment::create(2, fd).ok());

  const Status status = Segment::map(fd, 3, segment);

  EXPECT_EQ(StatusCode::kConfigError, status.code());
  close(fd);
}

TEST(Segment, MemoryOfAProcessWithoutStandardStreamsIsNoneOfThem) {
  const testing::ClosedStreams closed;
  int fd = -1;

  ASSERT_TRUE(Segment::create(2, fd).ok());
  const std::shared_ptr<Arenas> arenas =
      Arenas::map(fd, Segment::total_bytes(2), Arenas::largest_bytes(Segment::total_bytes(2), 2), 2);

  EXPECT_GE(fd, 3);
  EXPECT_TRUE(closed.are_still_closed());
  close(fd);
}

TEST(Segment, MemoryThatCannotBeHadIsAnErrorNotASignal) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    int fd = -1;
    const Status status = Segment::create(2, fd);
    const std::string needed = std::to_string(Segment::total_bytes(2)) + " bytes";
    const bool is_told = status.message().find(needed) != std::string::npos &&
                         status.message().find("raise it with ulimit -f") != std::string::npos;
    _exit(status.code() == StatusCode::kConfigError && is_told && fd == -1 ? 0 : 1);
  }
  int outcome = 0;
  waitpid(child, &outcome, 0);

  EXPECT_TRUE(WIFEXITED(outcome));
  EXPECT_EQ(0, WEXITSTATUS(outcome));
}

TEST(FailureRecord, TheFirstFailureWins) {
  const auto segment = testing::host_segment(1);

  EXPECT_FALSE(read_failure(*segment).has_value());
  record_failure(*segment, {StatusCode::kPeerLostError, 3, "rank 3 died"});
  record_failure(*segment, {StatusCode::kCollectiveTimeout, 1, "a consequence"});

  ASSERT_TRUE(read_failure(*segment).has_value());
  EXPECT_EQ(StatusCode::kPeerLostError, read_failure(*segment)->code);
  EXPECT_EQ(3, read_failure(*segment)->culprit_rank);
  EXPECT_EQ("rank 3 died", read_failure(*segment)->text);
}

TEST(FailureRecord, ALongTextIsCutNotOverrun) {
  const auto segment = testing::host_segment(1);

  record_failure(*segment, {StatusCode::kPeerLostError, 0, std::string(2 * kFailureTextBytes, 'x')});

  EXPECT_EQ(kFailureTextBytes - 1, read_failure(*segment)->text.size());
}

}  // namespace
}  // namespace ringtune
