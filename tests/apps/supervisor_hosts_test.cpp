// The hosts of a job: which there are, which answer, and how many ranks they take.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/environment.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/supervisor/host_check.hpp"
#include "tools/supervisor/hostfile.hpp"
#include "tools/supervisor/mca_parameters.hpp"

namespace tasuki::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Hostfiles, ListHostsAndSlots) {
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

TEST(Hostfiles, AcceptWindowsLineEndings) {
  const std::string text = "\xEF\xBB\xBFnode1 slots=4\r\n\r\nnode2 slots=2\r\n";
  const auto hosts = parse_hostfile(text, "h");
  EXPECT_EQ(names_of(hosts), "node1, node2");
  EXPECT_EQ(slots_of(hosts), 6);
  EXPECT_FALSE(is_plain_hostfile(text));
  EXPECT_FALSE(is_plain_hostfile("node1\r\n"));
  EXPECT_FALSE(is_plain_hostfile("\xEF\xBB\xBFnode1\n"));
  EXPECT_EQ(hostfile_text(hosts), "node1 slots=4\nnode2 slots=2\n");
  EXPECT_TRUE(is_plain_hostfile(hostfile_text(hosts)));
}

// mpirun ends with a paragraph about regular expressions, at every start.
TEST(Hostfiles, RejectHostNamesThatMpirunRejects) {
  for (const std::string name : {"localhost:2", "::1", "[::1]", "me@node1:4"}) {
    const auto wrong = testing::caught([&] { parse_hostfile("a\n" + name + "\n", "the-file"); });
    ASSERT_TRUE(wrong) << name;
    EXPECT_EQ(wrong->kind(), ErrorKind::config);
    EXPECT_THAT(wrong->what(), HasSubstr("the-file: '"));
    EXPECT_THAT(wrong->what(), HasSubstr("has a colon"));
  }
  const auto control = testing::caught([] { parse_hostfile("a\033[2Jb\n", "the-file"); });
  ASSERT_TRUE(control);
  EXPECT_THAT(control->what(), HasSubstr("the name of a host, found 'a?[2Jb'"));
}

TEST(Hostfiles, AcceptHostNamesThatDifferOnlyByDomain) {
  EXPECT_TRUE(need_domains(parse_hostfile("worker.a.net\nworker.b.net\n", "h")));
  EXPECT_TRUE(need_domains(parse_hostfile("worker\nother\nworker.b.net\n", "h")));
  EXPECT_FALSE(need_domains(parse_hostfile("node1.a.net\nnode2.a.net\n", "h")));
  EXPECT_FALSE(need_domains(parse_hostfile("10.0.0.1\n10.0.0.2\nnode1\nnode1 slots=2\n", "h")));
}

TEST(Hostfiles, RecogniseThisMachine) {
  const auto is_here = [](const std::string& name) {
    return parse_hostfile(name + '\n', "h").front().is_this_machine();
  };
  const std::string own = host_name();
  EXPECT_TRUE(is_here("localhost"));
  EXPECT_TRUE(is_here("127.0.0.1"));
  EXPECT_TRUE(is_here(own));
  EXPECT_TRUE(is_here("me@" + own));
  EXPECT_FALSE(is_here("x" + own));
  // Names that nobody knows (RFC 6761) are as good as the label.
  EXPECT_TRUE(is_here(own.substr(0, own.find('.')) + ".invalid") || own.find('.') != own.npos);
}

TEST(Hostfiles, FewerHostsHoldFewerRanks) {
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
  EXPECT_THAT(remote_shell(McaParameters({})),
              ElementsAre("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"));
  EXPECT_THAT(
      remote_shell(McaParameters({"--mca", "plm_rsh_agent", "none-such : /run/on_node -v"})),
      ElementsAre("/run/on_node", "-v"));
}

TEST(HostChecks, UsePrrtesRemoteShell) {
  const std::vector<std::string> words = {"--prtemca", "plm_ssh_agent", "/run/on_node -v",
                                          "--prtemca", "plm_ssh_args",  "-p 2222"};
  EXPECT_THAT(remote_shell(McaParameters(words, {}, MpiRuntime::prrte)),
              ElementsAre("/run/on_node", "-v", "-p", "2222"));
}

// Words win over the environment, that over files, and the user's file over the system's.
TEST(HostChecks, UseMpirunsRemoteShellArguments) {
  const testing::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {folder / "user", folder / "system"};
  std::ofstream(files[0]) << "# plm_rsh_args = no\n\n plm_rsh_args = -p 2222  -l me\t\r\n";
  std::ofstream(files[1]) << "plm_rsh_args=-p 1\nplm_rsh_agent = rsh\nodd line\n";
  std::ofstream(folder / "tune") << "plm_rsh_args = -J gate\n";
  std::ofstream(folder / "rsh") << "#!/bin/sh\n";
  const auto arguments = [&](const std::vector<std::string>& words) {
    auto all = remote_shell(McaParameters(words, {files[0]}));
    EXPECT_EQ(all.front(), "ssh");
    return std::vector(all.begin() + 5, all.end());
  };
  EXPECT_THAT(arguments({}), ElementsAre("-p", "2222", "-l", "me"));
  EXPECT_THAT(arguments({"--tune", folder / "tune"}), ElementsAre("-J", "gate"));
  setenv("OMPI_MCA_plm_rsh_args", "-i key", 1);
  EXPECT_THAT(arguments({"--tune", folder / "tune"}), ElementsAre("-i", "key"));
  EXPECT_THAT(arguments({"-x", "A", "-mca", "plm_rsh_args", "-F none"}), ElementsAre("-F", "none"));
  EXPECT_THAT(arguments({"--gmca", "plm_rsh_args", ""}), ElementsAre());
  unsetenv("OMPI_MCA_plm_rsh_args");
  setenv("OMPI_MCA_orte_rsh_agent", (folder / "rsh -v").c_str(), 1);  // an older name
  EXPECT_THAT(remote_shell(McaParameters({}, files)),
              ElementsAre((folder / "rsh").string(), "-v", "-p", "2222", "-l", "me"));
  unsetenv("OMPI_MCA_orte_rsh_agent");
}

TEST(MpiRuntimes, AreKnownByTheLibrary) {
  EXPECT_EQ(runtime_of("Open MPI v4.1.4"), MpiRuntime::orte);
  EXPECT_EQ(runtime_of("Open MPI v5.0.7"), MpiRuntime::prrte);
  EXPECT_EQ(runtime_of("Open MPI v10.0.0"), MpiRuntime::prrte);
  EXPECT_EQ(runtime_of("MPICH Version: 5.0.2"), MpiRuntime::hydra);
  EXPECT_EQ(runtime_of("Intel(R) MPI Library 2021.18 for Linux* OS"), MpiRuntime::intel_hydra);
  EXPECT_EQ(runtime_of("MPI VERSION : CRAY MPICH version 8.1.28"), std::nullopt);
}

// A file of the user's with ORTE's names says nothing to PRRTE.
TEST(MpiRuntimes, ReadTheirOwnNamesInFiles) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "user") << "plm_rsh_args = -p 1\nbtl = ^tcp\nprte_tmpdir_base = /fast\n";
  const std::vector<std::filesystem::path> files = {folder / "user"};
  const McaParameters orte({}, files), prrte({}, files, MpiRuntime::prrte);
  EXPECT_EQ(orte.find({"plm_rsh_args"}), "-p 1");
  EXPECT_EQ(prrte.find({"plm_rsh_args"}), std::nullopt);
  EXPECT_EQ(prrte.find({"btl"}), "^tcp");
  EXPECT_EQ(prrte.find({"orte_tmpdir_base"}), "/fast");
  EXPECT_EQ(prrte.find({"odls_base_sigkill_timeout"}), std::nullopt);

  setenv("OMPI_MCA_plm_rsh_agent", "rsh", 1);
  EXPECT_EQ(orte.find({"plm_rsh_agent"}), "rsh");
  EXPECT_EQ(prrte.find({"plm_rsh_agent"}), std::nullopt);
  unsetenv("OMPI_MCA_plm_rsh_agent");
  setenv("PRTE_MCA_plm_ssh_agent", "ssh -v", 1);
  EXPECT_EQ(prrte.find({"plm_rsh_agent"}), "ssh -v");
  EXPECT_EQ(orte.find({"plm_rsh_agent"}), std::nullopt);
  unsetenv("PRTE_MCA_plm_ssh_agent");
  const McaParameters given({"--mca", "plm_rsh_agent", "on_node"}, {}, MpiRuntime::prrte);
  EXPECT_EQ(given.find({"plm_rsh_agent"}), "on_node");
}

TEST(MpiRuntimes, HaveTheSameSettingsForTraining) {
  const std::filesystem::path hostfiles =
      std::filesystem::path(std::string(START_ORTED)).parent_path();
  std::vector<std::pair<std::string, std::string>> expected;
  for (const auto& [name, value] : read_mca_file(hostfiles / "mca-params.conf"))
    if (const auto words = words_to_set(MpiRuntime::prrte, name, value);
        !words.empty() && words[0] == "--prtemca" && value.find('=') == value.npos)
      expected.emplace_back(words[1], words[2]);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(read_mca_file(hostfiles / "prte-mca-params.conf"), expected);
}

TEST(StartOrted, StartsTheRuntimesDaemon) {
  const testing::TemporaryFolder folder;
  for (const std::string name : {"orted", "prted"}) {
    std::ofstream(folder / name) << "#!/bin/sh\necho " << name << " \"$@\" >" << folder / "said"
                                 << "\n";
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
  }
  const auto start = [&](const std::string& arguments) {
    const std::string path = "PATH=" + folder.path().string() + ":$PATH ";
    EXPECT_EQ(std::system((path + std::string(START_ORTED) + " " + arguments).c_str()), 0);
    std::string line;
    std::ifstream said(folder / "said");
    std::getline(said, line);
    return line;
  };
  EXPECT_EQ(start("-mca ess env"), "orted -mca ess env");
  EXPECT_EQ(start("--prtemca ess env"), "prted --prtemca ess env");
}

TEST(McaFiles, FindUserAndSystemFiles) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".openmpi");
  std::filesystem::create_directories(folder / "open/bin");
  std::filesystem::create_directories(folder / "open/etc");
  const auto files = {folder / ".openmpi/mca-params.conf",
                      folder / "open/etc/openmpi-mca-params.conf"};
  for (const auto& file : files) std::ofstream(file) << "a = b\n";
  std::ofstream(folder / "open/bin/mpirun").close();
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", folder.path().c_str(), 1);
  const auto found = find_mca_files(MpiRuntime::orte, folder / "open/bin/mpirun");
  std::filesystem::create_directories(folder / ".prte");
  for (const auto& file :
       {folder / ".prte/mca-params.conf", folder / "open/etc/prte-mca-params.conf"})
    std::ofstream(file) << "a = b\n";
  EXPECT_EQ(find_mca_files(MpiRuntime::prrte, folder / "open/bin/mpirun").size(), 4u);
  setenv("HOME", home.c_str(), 1);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], *files.begin());
  EXPECT_TRUE(std::filesystem::equivalent(found[1], *(files.begin() + 1)));
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
