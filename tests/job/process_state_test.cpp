// The state of processes, and which of them is the job's launcher.

#include "tasuki/job/process_state.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tasuki/core/error.hpp"

namespace tasuki {
namespace {

TEST(ProcessStatus, IsReadByItsKeys) {
  const ProcessState state = parse_process_status(
      "Name:\torted\nUmask:\t0022\nState:\tT (stopped)\nTgid:\t12\nPid:\t12\nPPid:\t7\n"
      "TracerPid:\t99\nUid:\t0\t0\t0\t0\nVmRSS:\t    1808 kB\n");
  EXPECT_STREQ(state.name.data(), "orted");
  EXPECT_TRUE(state.is_stopped());
  EXPECT_EQ(state.parent, 7);
  EXPECT_EQ(state.tracer, 99);
  EXPECT_EQ(state.memory, 1808 * 1024);
}

TEST(ProcessStatus, ThatIsDamagedIsNobodys) {
  for (const std::string text : {"", "\n\n", "Name", "Name:", "Name:\t", "State:\nPPid:\tx\n",
                                 "TracerPid:\t99999999999999999999\n"}) {
    const ProcessState state = parse_process_status(text);
    EXPECT_EQ(state.parent, 0);
    EXPECT_EQ(state.tracer, 0);
    EXPECT_FALSE(state.is_stopped());
  }
}

TEST(LauncherName, IsOpenMpis) {
  for (const char* const name : {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted",
                                 "mpirun.openmpi", "mpiexec.openmpi"})
    EXPECT_TRUE(is_launcher_name(name)) << name;
  for (const char* const name :
       {"bash", "slurmstepd", "srun", "hydra_pmi_proxy", "mpiexec.hydra", "mpirunner", ""})
    EXPECT_FALSE(is_launcher_name(name)) << name;
  EXPECT_TRUE(is_daemon_name("orted"));
  EXPECT_FALSE(is_daemon_name("mpirun"));
}

TEST(Launcher, OfOneJobIsNotAVirtualMachine) {
  for (const char* const job : {"1274609665", "prterun-node1-15223@1", "mpirun-node1-15223@1"})
    EXPECT_TRUE(is_launcher_of_one_job(job)) << job;
  for (const char* const job : {"prte-node1-15245@1", "prte-mpirun-7@12", "prted-node1-7@1",
                                "slurm.pmix.12.0", "prterun", "12a", "-", ""})
    EXPECT_FALSE(is_launcher_of_one_job(job)) << job;
}

TEST(LauncherProcess, IsNoneWithoutMpirun) {
  ASSERT_EQ(unsetenv("OMPI_COMM_WORLD_SIZE"), 0);
  EXPECT_EQ(launcher_process(), 0);
  // Nor where the variable is there and mpirun is not among the ancestors.
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launcher_process(), 0);
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

TEST(Processes, AreSeenStoppedAndAmongDescendants) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    for (;;) pause();
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const auto state = process_state(child);
  const auto all = descendants(getpid());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->is_stopped());
  EXPECT_EQ(state->parent, getpid());
  EXPECT_EQ(all, std::vector<pid_t>{child});
  EXPECT_FALSE(process_state(child));
}

}  // namespace
}  // namespace tasuki
