// tasuki-run's command line, and the launcher's that follows from it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/supervisor/launch.hpp"

namespace tasuki::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(CommandLines, TakeTheFirstOtherWordAsTheProgram) {
  const SupervisorSettings settings =
      parse_command_line({"-np", "4", "--max-restarts=2", "--verbose", "train", "-np", "--verbose"})
          .settings;
  EXPECT_EQ(settings.np, 4);
  EXPECT_EQ(settings.max_restarts, 2);
  EXPECT_TRUE(settings.is_max_restarts_given);
  EXPECT_TRUE(settings.verbose);
  EXPECT_THAT(settings.program, ElementsAre("train", "-np", "--verbose"));

  const SupervisorSettings after_dashes =
      parse_command_line({"-n2", "--", "--odd-name", "-x"}).settings;
  EXPECT_EQ(after_dashes.np, 2);
  EXPECT_FALSE(after_dashes.is_max_restarts_given);
  EXPECT_THAT(after_dashes.program, ElementsAre("--odd-name", "-x"));
}

TEST(CommandLines, ReportUsageErrors) {
  const auto error_of = [](const Words& words) {
    const auto error = testing::caught([&] { parse_command_line(words); });
    if (!error) return std::string("(none)");
    EXPECT_EQ(error->kind(), ErrorKind::usage);
    return std::string(error->what());
  };
  EXPECT_THAT(error_of({}), HasSubstr("no program was given"));
  EXPECT_THAT(error_of({"-np", "2"}), HasSubstr("no program was given"));
  EXPECT_THAT(error_of({"-np", "0", "train"}), HasSubstr("--np: expected an integer from 1"));
  EXPECT_THAT(error_of({"--max-restart", "2", "train"}), HasSubstr("did you mean --max-restarts?"));
  EXPECT_THAT(error_of({"-np", "2", "--min-np", "3", "train"}), HasSubstr("at most -np 2"));
  EXPECT_THAT(error_of({"--min-np", "1", "train"}), HasSubstr("expected --hostfile FILE"));
  EXPECT_THAT(error_of({"--launcher", "srun", "--hostfile", "h", "train"}),
              HasSubstr("leave it out"));
  for (const std::string flag : {"-np 4", "--np 4", "-n 4", "-c 4"})
    EXPECT_THAT(error_of({"--mpirun-args", flag, "train"}), HasSubstr("-np N instead"));
  for (const std::string flag :
       {"-H a", "--host a", "--hostfile h", "--machinefile h", "-f h", "-hosts a,b"})
    EXPECT_THAT(error_of({"--mpirun-args", flag, "train"}), HasSubstr("--hostfile FILE instead"));
  EXPECT_THAT(error_of({"--launcher", "srun", "--mpirun-args", "--ntasks=4", "train"}),
              HasSubstr("-np N instead"));
  EXPECT_EQ(error_of({"--launcher", "srun", "--mpirun-args", "-c 4", "train"}), "(none)");
  EXPECT_THAT(error_of({"--mpirun-args", "-x 'A", "train"}), HasSubstr("a quote without its end"));
  EXPECT_THAT(error_of({"--mpirun-args", "-x A\\", "train"}), HasSubstr("a backslash at the end"));
}

class Launches : public ::testing::Test {
 protected:
  Launches() {
    around.cores = 8;
    around.tune = "/t/mca-params.conf";
    around.start_orted = "/t/start_orted";
    around.exported = {"OMP_NUM_THREADS", "TASUKI_X"};
  }
  std::string command(const Placement& placement) {
    return make_launch(settings, around, placement, program, {"train", "--epoch", "1 2"}).text();
  }
  SupervisorSettings settings;
  Surroundings around;
  Program program{{"train"}, {{"out", "result"}}};
};

TEST_F(Launches, NeedFewArgumentsOnThisHost) {
  EXPECT_EQ(command({8, "", 8}), "mpirun -np 8 --tune /t/mca-params.conf train --epoch '1 2'");
  EXPECT_EQ(command({2, "", 8}),
            "mpirun -np 2 --tune /t/mca-params.conf --bind-to none train --epoch '1 2'")
      << "each rank has four cores";
  around.is_root = true;
  EXPECT_EQ(command({9, "", 8}),
            "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -np 9 --tune "
            "/t/mca-params.conf --oversubscribe --bind-to none train --epoch '1 2'");
}

TEST_F(Launches, PassVariablesAndAgentToOtherHosts) {
  EXPECT_EQ(command({4, "hosts", 4}),
            "mpirun -np 4 --tune /t/mca-params.conf --hostfile hosts --launch-agent "
            "/t/start_orted --bind-to none -x OMP_NUM_THREADS -x TASUKI_X train "
            "--epoch '1 2'");
  EXPECT_THAT(command({5, "hosts", 4}), HasSubstr(" --oversubscribe "));
  EXPECT_THAT(command({5, "hosts", std::nullopt}), HasSubstr(" --oversubscribe "));
}

TEST_F(Launches, PreferUserArguments) {
  settings = parse_command_line({"--mpirun-args",
                                 "--tune 'my file' --launch-agent orted --map-by ppr:1:node "
                                 "--nooversubscribe",
                                 "train"})
                 .settings;
  EXPECT_EQ(command({4, "hosts", 2}),
            "mpirun -np 4 --hostfile hosts -x OMP_NUM_THREADS -x TASUKI_X --tune 'my file' "
            "--launch-agent orted --map-by ppr:1:node --nooversubscribe train --epoch '1 2'");
}

// Wherever the user has said it: mpirun would take a --tune file's value for one of
// ~/.openmpi/mca-params.conf, and refuses networks to use besides networks not to use.
TEST_F(Launches, OmitSettingsOfTheUser) {
  const testing::TemporaryFolder folder;
  around.tune = folder / "tune";
  std::ofstream(around.tune) << "# for training\nplm_rsh_args = -o ConnectTimeout=10\n"
                                "btl_tcp_if_exclude = docker0\noob_tcp_keepalive_time = 2\n";
  const std::string all = "mpirun -np 8 --tune " + around.tune + " train";
  EXPECT_THAT(command({8, "", 8}), ::testing::StartsWith(all));
  around.mca_files = {folder / "user"};
  std::ofstream(around.mca_files[0]) << "plm_rsh_args = -p 2222\n";
  EXPECT_THAT(command({8, "", 8}),
              ::testing::StartsWith("mpirun -np 8 --mca btl_tcp_if_exclude docker0 --mca "
                                    "oob_tcp_keepalive_time 2 train"));
  around.mca_files.clear();
  setenv("OMPI_MCA_btl_tcp_if_include", "eth1", 1);
  EXPECT_THAT(command({8, "", 8}),
              ::testing::StartsWith("mpirun -np 8 --mca plm_rsh_args '-o ConnectTimeout=10' --mca "
                                    "oob_tcp_keepalive_time 2 train"));
  unsetenv("OMPI_MCA_btl_tcp_if_include");
  setenv("OMPI_MCA_orte_launch_agent", "mine", 1);
  EXPECT_THAT(command({4, "hosts", 4}), ::testing::Not(HasSubstr("--launch-agent")));
  unsetenv("OMPI_MCA_orte_launch_agent");
}

// PRRTE takes no such file; its own parameters have other names and another flag.
TEST_F(Launches, PassSettingsToPrrteByItsNames) {
  const testing::TemporaryFolder folder;
  around.tune = folder / "tune";
  around.runtime = MpiRuntime::prrte;
  std::ofstream(around.tune) << "plm_rsh_args = -o ConnectTimeout=10\noob_tcp_keepalive_time = 2\n"
                                "btl_tcp_if_exclude = docker0\noob_tcp_if_exclude = docker0\n"
                                "odls_base_sigkill_timeout = 0\n";
  const std::string ssh = " --prtemca plm_ssh_args '-o ConnectTimeout=10'",
                    rest = " --prtemca oob_tcp_keepalive_time 2 --mca btl_tcp_if_exclude docker0",
                    networks = " --prtemca prte_if_exclude docker0";
  EXPECT_EQ(command({8, "", 8}), "mpirun -np 8" + ssh + rest + networks + " train --epoch '1 2'");
  settings.launcher_words = {"--prtemca", "plm_ssh_args", "-p 2222"};
  EXPECT_EQ(command({8, "", 8}), "mpirun -np 8" + rest + networks +
                                     " --prtemca plm_ssh_args '-p 2222' train --epoch '1 2'");
  settings.launcher_words = {"--mca", "plm_rsh_args", "-p 2222"};
  EXPECT_THAT(command({8, "", 8}), ::testing::StartsWith("mpirun -np 8" + rest + networks));
  settings.launcher_words.clear();
  setenv("PRTE_MCA_prte_if_include", "eth1", 1);
  EXPECT_EQ(command({8, "", 8}), "mpirun -np 8" + ssh + rest + " train --epoch '1 2'");
  unsetenv("PRTE_MCA_prte_if_include");

  Placement placement{4, "hosts", 4};
  placement.needs_domains = true;
  EXPECT_THAT(command(placement), HasSubstr(" --prtemca prte_keep_fqdn_hostnames 1 --prtemca "
                                            "prte_launch_agent /t/start_orted "));
  program = Program{{"other"}, {}};
  EXPECT_THAT(command({8, "", 8}), ::testing::Not(HasSubstr("sigkill")));
}

TEST_F(Launches, KeepDomainsOfHostsWithTheSameLabel) {
  Placement placement{4, "hosts", 4};
  EXPECT_THAT(command(placement), ::testing::Not(HasSubstr("fqdn")));
  placement.needs_domains = true;
  EXPECT_THAT(command(placement),
              HasSubstr(" --hostfile hosts --mca orte_keep_fqdn_hostnames 1 --launch-agent "));
  settings.launcher_words = {"--mca", "orte_keep_fqdn_hostnames", "0"};
  EXPECT_EQ(command(placement).find("fqdn"), command(placement).rfind("fqdn"));
}

// They listen on no network, if they can share memory and the user has not chosen how they talk.
TEST_F(Launches, UseNoNetworkOnOneMachine) {
  around.shared_memory = 64 << 20;
  EXPECT_THAT(command({8, "", 8}), HasSubstr(" --mca btl ^tcp train"));
  EXPECT_THAT(command({9, "", 8}), ::testing::Not(HasSubstr("btl"))) << "too little memory";
  Placement elsewhere{4, "hosts", 4};
  EXPECT_THAT(command(elsewhere), HasSubstr("^tcp")) << "this machine, by its name";
  elsewhere.is_here = false;
  EXPECT_THAT(command(elsewhere), ::testing::Not(HasSubstr("btl")));
  around.slurm = SlurmJob{2, 4, 2, 1};
  EXPECT_THAT(command(place(around, 4, {}, "")), ::testing::Not(HasSubstr("btl")));
  around.slurm.reset();

  const testing::TemporaryFolder folder;
  around.mca_files = {folder / "system"};
  std::ofstream(around.mca_files[0]) << "btl = ^openib,ofi\n";
  EXPECT_THAT(command({8, "", 8}), HasSubstr(" --mca btl ^openib,ofi,tcp train"));
  std::ofstream(around.mca_files[0]) << "btl = self,tcp\n";
  EXPECT_THAT(command({8, "", 8}), ::testing::Not(HasSubstr("btl")));
  around.mca_files.clear();
  settings.launcher_words = {"--mca", "btl", "self,tcp"};
  EXPECT_THAT(command({8, "", 8}), HasSubstr("--mca btl self,tcp train"));
  settings.launcher_words.clear();
  around.may_have_other_hosts = true;
  EXPECT_THAT(command({8, "", 8}), ::testing::Not(HasSubstr("btl")));
}

// They end by SIGTERM, after which mca-params.conf leaves no time.
TEST_F(Launches, GiveOtherProgramsTimeToExit) {
  program.config.clear();
  EXPECT_THAT(command({8, "", 8}),
              HasSubstr("mca-params.conf --mca odls_base_sigkill_timeout 1 train"));
  const auto with_flags = [&](Words flags) {
    flags.emplace_back("train");
    settings = parse_command_line(flags).settings;
    return command({8, "", 8});
  };
  EXPECT_THAT(with_flags({"--stop-timeout", "2.5"}),
              HasSubstr("odls_base_sigkill_timeout 3 train"));
  EXPECT_THAT(with_flags({"--mpirun-args", "--mca odls_base_sigkill_timeout 9"}),
              HasSubstr("mca-params.conf --mca odls_base_sigkill_timeout 9 train"));
  EXPECT_THAT(with_flags({"--launcher", "srun"}), ::testing::Not(HasSubstr("sigkill")));
}

TEST_F(Launches, UseTheTasksOfASlurmJob) {
  around.slurm = SlurmJob{2, 4, 2, 3};
  EXPECT_EQ(default_np(around, {}), 4);
  EXPECT_EQ(command(place(around, 4, {}, "")),
            "mpirun -np 4 --tune /t/mca-params.conf --map-by ppr:2:node:PE=3 --bind-to core -x "
            "OMP_NUM_THREADS -x TASUKI_X train --epoch '1 2'");
  settings.launcher = LauncherKind::srun;
  settings.launcher_words = {"--exclusive"};
  EXPECT_EQ(command(place(around, 4, {}, "")),
            "srun --kill-on-bad-exit=1 --ntasks=4 --mpi=pmix --exclusive train --epoch '1 2'");
  around.srun_mpi = "pmi2";
  EXPECT_THAT(command(place(around, 4, {}, "")), HasSubstr(" --mpi=pmi2 --exclusive "));
  around.srun_mpi.clear();
  EXPECT_THAT(command(place(around, 4, {}, "")), HasSubstr(" --ntasks=4 --exclusive "));
}

TEST_F(Launches, DeriveRanksFromSlots) {
  EXPECT_EQ(default_np(around, {}), 8);
  EXPECT_EQ(default_np(around, parse_hostfile("a slots=2\nb slots=3\n", "h")), 5);
  EXPECT_EQ(default_np(around, parse_hostfile("a slots=2\nb\n", "h")), std::nullopt);
  EXPECT_EQ(default_np(around, parse_hostfile("a slots=2\n", "h"), {"--map-by", "ppr:1:node"}),
            std::nullopt);
  EXPECT_EQ(default_np(around, {}, {"--bind-to", "core"}), 8);
}

}  // namespace
}  // namespace tasuki::supervisor
