// SPDX-License-Identifier: Apache-2.0
#include "transport/layout.h"

#include <gtest/gtest.h>

#include "transport/peer_name.h"

namespace ringtune {
namespace {

TEST(Layout, OneHostHoldsAllRanksInTheirOrder) {
  const Layout layout = Layout::one_host(2, 3);

  EXPECT_EQ(1, layout.host_count());
  EXPECT_EQ(2, layout.local_rank());
  EXPECT_EQ((std::vector<int>{0, 1, 2}), layout.local_ranks());
}

TEST(Layout, RanksOfAHostNeedNotBeNeighbours) {
  const Layout layout(3, {0, 1, 0, 1, 2});

  EXPECT_EQ(5, layout.world_size());
  EXPECT_EQ(3, layout.host_count());
  EXPECT_EQ(1, layout.host());
  EXPECT_EQ((std::vector<int>{1, 3}), layout.local_ranks());
  EXPECT_EQ((std::vector<int>{0, 2}), layout.ranks_of(0));
  EXPECT_EQ(2, layout.local_size());
  EXPECT_EQ(1, layout.local_rank());
  EXPECT_EQ(0, layout.local_rank_of(1));
  EXPECT_TRUE(layout.is_local(1));
  EXPECT_FALSE(layout.is_local(2));
}

TEST(PeerName, SaysWhatIsKnownAndNeeded) {
  const Layout two_hosts(0, {0, 1});

  EXPECT_EQ("rank 1 (host 1, pid 77)", peer_name(two_hosts, {76, 77}, 1));
  EXPECT_EQ("rank 1 (host 1)", peer_name(two_hosts, {}, 1));
  EXPECT_EQ("rank 1 (pid 77)", peer_name(Layout::one_host(0, 2), {76, 77}, 1));
  EXPECT_EQ("rank 1", peer_name(Layout::one_host(0, 2), {76, 0}, 1));
}

}  // namespace
}  // namespace ringtune
