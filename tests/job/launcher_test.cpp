// Which process is the job's launcher.

#include "job/launcher.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tasuki {
namespace {

TEST(LauncherName, RecognisesOpenMpi) {
  for (const char* const name : {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted",
                                 "mpirun.openmpi", "mpiexec.openmpi"})
    EXPECT_TRUE(is_launcher_name(name)) << name;
  for (const char* const name :
       {"bash", "slurmstepd", "srun", "hydra_pmi_proxy", "mpiexec.hydra", "mpirunner", ""})
    EXPECT_FALSE(is_launcher_name(name)) << name;
  EXPECT_TRUE(is_daemon_name("orted"));
  EXPECT_FALSE(is_daemon_name("mpirun"));
}

TEST(Launcher, IsDistinguishedFromAVirtualMachine) {
  for (const char* const job : {"1274609665", "prterun-node1-15223@1", "mpirun-node1-15223@1"})
    EXPECT_TRUE(is_launcher_of_one_job(job)) << job;
  for (const char* const job : {"prte-node1-15245@1", "prte-mpirun-7@12", "prted-node1-7@1",
                                "slurm.pmix.12.0", "prterun", "12a", "-", ""})
    EXPECT_FALSE(is_launcher_of_one_job(job)) << job;
}

TEST(LauncherProcess, IsNotFoundWithoutMpirun) {
  ASSERT_EQ(unsetenv("OMPI_COMM_WORLD_SIZE"), 0);
  EXPECT_EQ(launcher_process(), 0);
  // Nor where the variable is there and mpirun is not among the ancestors.
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launcher_process(), 0);
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace tasuki
