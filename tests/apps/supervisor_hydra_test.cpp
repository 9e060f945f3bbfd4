// tasuki-run with Hydra, the launcher of MPICH and Intel MPI: its command line, and its texts.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tools/supervisor/host_check.hpp"
#include "tools/supervisor/hydra.hpp"
#include "tools/supervisor/launcher_text.hpp"

namespace tasuki::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class HydraLaunches : public ::testing::Test {
 protected:
  HydraLaunches() {
    around.mpirun = "/opt/mpi/bin/mpiexec.hydra";
    around.runtime = MpiRuntime::hydra;
    around.cores = 8;
    around.is_root = true;
    around.tune = "/t/mca-params.conf";
    around.start_orted = "/t/start_orted";
    around.exported = {"OMP_NUM_THREADS"};
    around.shared_memory = 64 << 20;
  }
  std::string command(const Placement& placement) {
    return make_launch(settings, around, placement, program, {"train", "--epoch", "1 2"}).text();
  }
  SupervisorSettings settings;
  Surroundings around;
  Program program{{"train"}, {{"out", "result"}}};
};

TEST_F(HydraLaunches, NeedNoFlagsOfOpenMpi) {
  EXPECT_EQ(command({9, "", 8}), "/opt/mpi/bin/mpiexec.hydra -np 9 train --epoch '1 2'");
  EXPECT_EQ(command({std::nullopt, "hosts", std::nullopt}),
            "/opt/mpi/bin/mpiexec.hydra -f hosts train --epoch '1 2'");
  settings.launcher_words = {"-bind-to", "core"};
  EXPECT_EQ(command({2, "", 8}),
            "/opt/mpi/bin/mpiexec.hydra -np 2 -bind-to core train --epoch '1 2'");
}

TEST_F(HydraLaunches, PlaceIntelMpisRanksBySlots) {
  around.runtime = MpiRuntime::intel_hydra;
  EXPECT_THAT(command({4, "hosts", 4, false}), HasSubstr(" -np 4 -machine hosts train"));
  EXPECT_THAT(command({4, "hosts", std::nullopt, false}), HasSubstr(" -np 4 -f hosts train"));
}

// Otherwise it binds every rank to one core.
TEST_F(HydraLaunches, LetIntelMpisRanksUseTheirCores) {
  around.runtime = MpiRuntime::intel_hydra;
  EXPECT_EQ(command({2, "", 8}),
            "I_MPI_PIN=0 /opt/mpi/bin/mpiexec.hydra -np 2 train --epoch '1 2'");
  EXPECT_THAT(command({8, "", 8}), Not(HasSubstr("I_MPI_PIN"))) << "one core for each";
  settings.launcher_words = {"-genv", "I_MPI_PIN_DOMAIN", "omp"};
  EXPECT_THAT(command({2, "", 8}), Not(HasSubstr("I_MPI_PIN=")));
  settings.launcher_words.clear();
  setenv("I_MPI_PIN", "1", 1);
  EXPECT_THAT(command({2, "", 8}), Not(HasSubstr("I_MPI_PIN=")));
  unsetenv("I_MPI_PIN");
}

TEST_F(HydraLaunches, LetSshNoticeLostHosts) {
  Placement elsewhere{4, "hosts", 4};
  elsewhere.is_here = false;
  const std::string options =
      "'-o ConnectTimeout=10 -o ServerAliveInterval=3 -o ServerAliveCountMax=3' ";
  EXPECT_EQ(command(elsewhere),
            "HYDRA_LAUNCHER_EXTRA_ARGS=" + options +
                "/opt/mpi/bin/mpiexec.hydra -np 4 -f hosts train --epoch '1 2'");
  around.runtime = MpiRuntime::intel_hydra;
  EXPECT_THAT(command(elsewhere), HasSubstr("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=" + options));
  around.runtime = MpiRuntime::hydra;
  settings.launcher_words = {"-launcher-exec", "/usr/bin/rsh"};
  EXPECT_THAT(command(elsewhere), Not(HasSubstr("ConnectTimeout")));
  settings.launcher_words.clear();
  setenv("HYDRA_LAUNCHER_EXTRA_ARGS", "-p 2222", 1);
  EXPECT_THAT(command(elsewhere), Not(HasSubstr("ConnectTimeout"))) << "the user's are in place";
  unsetenv("HYDRA_LAUNCHER_EXTRA_ARGS");
}

TEST(HydraHosts, HaveTheirSlotsAfterAColon) {
  EXPECT_EQ(hydra_hostfile(parse_hostfile(
                "# hosts\nnode1 slots=4\nme@node2.here slots = 2\nnode3\nnode4 slots=0\n", "h")),
            "node1:4\nme@node2.here:2\nnode3\n");
}

TEST(HydraHosts, AreAskedByMpiexecsRemoteShell) {
  EXPECT_THAT(hydra_remote_shell(MpiRuntime::hydra, {}),
              ElementsAre("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"));
  EXPECT_THAT(hydra_remote_shell(MpiRuntime::hydra, {"-launcher-exec", "/run/on_node"}),
              ElementsAre("/run/on_node"));
  setenv("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/opt/rsh", 1);
  setenv("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-l me", 1);
  EXPECT_THAT(hydra_remote_shell(MpiRuntime::intel_hydra, {}), ElementsAre("/opt/rsh", "-l", "me"));
  EXPECT_THAT(hydra_remote_shell(MpiRuntime::hydra, {})[0], "ssh");
  EXPECT_THAT(hydra_remote_shell(MpiRuntime::intel_hydra, {"--bootstrap-exec", "b"})[0], "b");
  unsetenv("I_MPI_HYDRA_BOOTSTRAP_EXEC");
  unsetenv("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS");
}

// The texts of MPICH 4.0.2, 5.0.2 and Intel MPI 2021.18.
TEST(HydraTexts, ReportWhatItRefuses) {
  struct Refusal {
    std::string said, line;
  };
  const Refusal refusals[] = {
      {"[proxy:0:0@node2] HYDU_create_process (utils/launch/launch.c:73): execvp error on file "
       "/opt/my train (No such file or directory)",
       "error: /opt/my train is missing on node2, or cannot be executed there; every host needs it "
       "at this path"},
      {"[proxy:0@node2] HYDU_create_process (/src/launch.c:73): execvp error on file a (Permission "
       "denied)",
       "error: a cannot be executed on node2: Permission denied"},
      {"[proxy:0@node2] launch_procs (/src/pmip_cb.c:884): unable to change wdir to /srv/a b (No "
       "such file or directory)",
       "error: the working folder /srv/a b is missing on node2, or cannot be entered there; every "
       "host needs it"},
      {"[mpiexec@node1] match_arg (lib/utils/args.c:166): unrecognized argument no-such-flag",
       "error: mpiexec: unrecognized argument no-such-flag"},
      {"[mpiexec@node1] Error: Unable to run bstrap_proxy on node2 (pid 4711, exit code 32512)",
       "error: hydra_bstrap_proxy is missing on node2, or cannot be executed there; every host "
       "needs it at this path"}};
  for (const Refusal& refusal : refusals) {
    LauncherText text(/*leave_out=*/true);
    text.pass(refusal.said + '\n');
    ASSERT_TRUE(text.cause()) << refusal.said;
    EXPECT_EQ(text.cause()->line, refusal.line);
    EXPECT_EQ(text.start_failure(), StartFailure::refused);
  }
}

TEST(HydraTexts, NameHostsOutOfReach) {
  const std::string ssh = "ssh: connect to host node2 port 22: No route to host\n";
  LauncherText mpichs(/*leave_out=*/true);
  EXPECT_EQ(
      mpichs.pass(ssh +
                  "[mpiexec@node1] ui_cmd_cb (/m/pmiserv_pmci.c:51): Launch proxy failed.\n"
                  "[mpiexec@node1] HYDT_dmxu_poll_wait_for_event (/m/demux_poll.c:76): callback "
                  "returned error status\n"
                  "[mpiexec@node1] main (/m/mpiexec.c:270): process manager error waiting for "
                  "completion\n"),
      ssh + "[mpiexec@node1] ui_cmd_cb (/m/pmiserv_pmci.c:51): Launch proxy failed.\n");
  EXPECT_TRUE(mpichs.unreached());
  EXPECT_EQ(mpichs.cause()->host, "node2");
  EXPECT_EQ(mpichs.start_failure(), StartFailure::no_daemon);

  LauncherText text(/*leave_out=*/true);
  text.pass(
      "[mpiexec@node1] Error: Unable to run bstrap_proxy on node2 (pid 4711, exit code 65280)\n");
  EXPECT_EQ(text.cause()->line, "error: node2 cannot be reached");
  EXPECT_EQ(text.start_failure(), StartFailure::no_daemon);
  text.pass(ssh);  // comes after Intel's text
  EXPECT_EQ(text.cause()->line, mpichs.cause()->line);
}

}  // namespace
}  // namespace tasuki::supervisor
