// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_file.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "closed_streams.h"
#include "trace_reader.h"

namespace ringtune {
namespace {

using testing::read_file;
using testing::ScratchFolder;

TEST(TracePath, EveryRankButTheFirstHasItsNumberBeforeTheSuffix) {
  EXPECT_EQ("logs/trace.json", trace_path_of("logs/trace.json", 0));
  EXPECT_EQ("logs/trace.rank3.json", trace_path_of("logs/trace.json", 3));
  EXPECT_EQ("logs.d/trace.rank12", trace_path_of("logs.d/trace", 12));
  EXPECT_EQ("trace.of.job.rank1.json", trace_path_of("trace.of.job.json", 1));
}

TEST(TraceFile, AProcessWithoutStandardStreamsDoesNotPrintIntoIt) {
  const ScratchFolder folder;
  const testing::ClosedStreams closed;
  TraceFile file;

  ASSERT_TRUE(file.open(folder.file("trace.json")).ok());

  EXPECT_TRUE(closed.are_still_closed());
}

TEST(TraceFile, AFileThatCannotBeOpenedIsAConfigErrorThatNamesIt) {
  const ScratchFolder folder;
  TraceFile file;

  const Status status = file.open(folder.file("missing/trace.json"));

  EXPECT_EQ(StatusCode::kConfigError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("missing/trace.json': No such file")) << status.message();
}

TEST(TraceFile, ALinkInASharedFolderIsNotFollowed) {
  const ScratchFolder folder;
  TraceFile file;
  ASSERT_TRUE(file.open(folder.file("precious")).ok());
  ASSERT_EQ(0, file.append("as it was\n"));
  ASSERT_EQ(0, file.close());
  std::filesystem::create_symlink(folder.file("precious"), folder.file("trace.json"));
  const std::filesystem::path path = std::filesystem::path(folder.file("trace.json")).parent_path();
  const auto sticky = std::filesystem::perms::sticky_bit;
  std::filesystem::permissions(path, sticky, std::filesystem::perm_options::add);

  const Status status = file.open(folder.file("trace.json"));

  EXPECT_EQ(StatusCode::kConfigError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("trace.json': it is a link in a folder")) << status.message();
  EXPECT_EQ("as it was\n", read_file(folder.file("precious")));
  std::filesystem::permissions(path, sticky, std::filesystem::perm_options::remove);
  EXPECT_TRUE(file.open(folder.file("trace.json")).ok());
}

TEST(TraceFile, AnOldFileIsOverwritten) {
  const ScratchFolder folder;
  TraceFile file;
  ASSERT_TRUE(file.open(folder.file("trace.json")).ok());
  ASSERT_EQ(0, file.append("a long first trace\n"));
  ASSERT_EQ(0, file.close());

  ASSERT_TRUE(file.open(folder.file("trace.json")).ok());
  ASSERT_EQ(0, file.append("second\n"));
  ASSERT_EQ(0, file.close());

  EXPECT_EQ("second\n", read_file(folder.file("trace.json")));
}

// A limit of the file's size stands for the disk's: both end a write in the middle.
void fill_up(const std::string& path) {
  const rlimit limit{100, 100};
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  TraceFile file;
  const bool is_open = file.open(path).ok();
  const bool is_first_whole = file.append(std::string(79, '1') + "\n") == 0;
  const bool is_second_refused = file.append(std::string(79, '2') + "\n") == EFBIG;
  std::_Exit(is_open && is_first_whole && is_second_refused && file.close() == 0 ? 0 : 1);
}

TEST(TraceFile, AFullDiskLeavesWholeLines) {
  const ScratchFolder folder;

  EXPECT_EXIT(fill_up(folder.file("trace.json")), ::testing::ExitedWithCode(0), "");

  EXPECT_EQ(std::string(79, '1').append("\n"), read_file(folder.file("trace.json")));
}

}  // namespace
}  // namespace ringtune
