// The hosts of a job: which there are, which answer, and how many ranks they take.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "errors.hpp"
#include "supervisor/host_check.hpp"
#include "supervisor/hostfile.hpp"
#include "temporary_folder.hpp"

namespace tasuki::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Hostfiles, HaveHostsAndSlots) {
  const auto hosts = parse_hostfile(
      "# a comment\nnode1 slots=4 # more\n\nme@node2.here slots = 2 max_slots=3\nnode3\n", "h");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(names_of(hosts), "node1, node2.here, node3");
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(hosts[1].address, "me@node2.here");
  EXPECT_EQ(hosts[2].slots, std::nullopt);
  EXPECT_EQ(slots_of(hosts), std::nullopt);
  EXPECT_EQ(slots_of({hosts[0], hosts[1]}), 6);
  EXPECT_EQ(slots_of(parse_hostfile(hostfile_text({hosts[0], hosts[1]}), "h")), 6);

  const auto twice = parse_hostfile("a\na slots=2\na\n", "h");
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_EQ(twice[0].slots, 4);
  EXPECT_EQ(parse_hostfile(hostfile_text(twice), "h")[0].slots, 4);
  EXPECT_EQ(parse_hostfile("a max-slots=4 slots=2\n", "h")[0].slots, 2);
  const auto wrong = testing::caught([] { parse_hostfile("a\nnode1 slots=x\n", "the-file"); });
  ASSERT_TRUE(wrong);
  EXPECT_THAT(wrong->what(), HasSubstr("the-file: node1: expected slots=N"));
  EXPECT_THAT(wrong->what(), HasSubstr("found 'x'"));
  const auto none = testing::caught([] { parse_hostfile("# node1\n", "the-file"); });
  ASSERT_TRUE(none);
  EXPECT_THAT(none->what(), HasSubstr("the-file: expected a host"));
}

TEST(Hostfiles, FewerHostsTakeFewerRanks) {
  const auto all = parse_hostfile("a slots=4\nb slots=4\nc slots=2\n", "h");
  const std::vector<Host> left = {all[0], all[2]};
  EXPECT_EQ(ranks_on(left, all, 10, {}, 1), 6);
  EXPECT_EQ(ranks_on(left, all, 5, {}, 1), 5);
  EXPECT_EQ(ranks_on(left, all, 10, {}, 7), 0);
  EXPECT_EQ(ranks_on(left, all, 20, {}, 1), 12) << "two on each slot, as before";
  EXPECT_EQ(ranks_on(left, all, 10, 20, 1), 5) << "20 shards cannot be dealt to 6";
  EXPECT_EQ(ranks_on(left, all, 10, 7, 2), 0);
  EXPECT_EQ(ranks_on({}, all, 10, {}, 1), 0);
  const auto unknown = parse_hostfile("a\nb\n", "h");
  EXPECT_EQ(ranks_on({unknown[1]}, unknown, 6, {}, 1), 3);
}

TEST(HostChecks, UseMpirunsRemoteShell) {
  EXPECT_THAT(remote_shell({}),
              ElementsAre("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"));
  EXPECT_THAT(remote_shell({"--mca", "plm_rsh_agent", "none-such : /run/on_node -v"}),
              ElementsAre("/run/on_node", "-v"));
}

TEST(HostChecks, HaveATimeLimit) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "agent") << "#!/bin/sh\ncase $1 in bad) exit 1;; gone) sleep 60;; esac\n";
  std::filesystem::permissions(folder / "agent", std::filesystem::perms::owner_all);
  const Signals signals;
  int signal = 0;
  const auto hosts = parse_hostfile("good\nbad\ngone\nlocalhost\n", "h");
  const auto found = answering(hosts, {folder / "agent"}, std::chrono::seconds(1), signals, signal);
  ASSERT_TRUE(found);
  EXPECT_EQ(names_of(*found), "good, localhost");
  raise(SIGTERM);
  EXPECT_FALSE(answering(hosts, {folder / "agent"}, std::chrono::seconds(30), signals, signal));
  EXPECT_EQ(signal, SIGTERM);
}

}  // namespace
}  // namespace tasuki::supervisor
