// tasuki-run in Slurm's jobs.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <system_error>

#include "tasuki_run_job.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

// A port that a program of this machine listens on: this one, or whoever has it already.
class TakenPort {
 public:
  explicit TakenPort(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
        errno != EADDRINUSE)
      throw std::system_error(errno, std::generic_category(), "bind");
    listen(socket_, 1);
  }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  ~TakenPort() { close(socket_); }

 private:
  int socket_;
};

// Started in the allocation by mpirun or by srun; Slurm's warning saves.
TEST_F(TrainMnist, IsSupervisedInSlurmJobs) {
  const auto run_in_slurm = [this](const std::string& launcher) {
    std::string line = "exec";
    for (const std::string& word :
         with({TASUKI_RUN, "--launcher", launcher},
              program(launcher, {"--epoch", "100000", "--log-every", "1"})))
      line += " '" + word + "'";
    return run_program({SLURM_RUN, "2", "--signal", folder / (launcher + "/log"), "--", line});
  };
  const TakenPort controllers(6817), daemons(6818);  // as where the machine has a Slurm of its own
  // At once, as most of the time Slurm waits.
  auto with_srun = std::async(std::launch::async, run_in_slurm, "srun");
  for (const Finished& job : {run_in_slurm("mpirun"), with_srun.get()}) {
    EXPECT_EQ(count_of(job.all(), "Address already in use"), 0) << job.all();
    if (job.exit_code == 77) GTEST_SKIP() << job.all();
    EXPECT_EQ(job.exit_code, 79) << job.all();
    EXPECT_EQ(count_of(job.out, "Num process (COMM_WORLD): 2\n"), 1) << job.all();
    EXPECT_EQ(count_of(job.out, "SIGUSR1: the job saves and stops\n"), 1) << job.all();
    EXPECT_EQ(count_of(job.out, "stopped and saved after iteration "), 1) << job.all();
  }
}

// The allocation's tasks say nothing about a process in its script, nor about fewer ranks there.
TEST_F(TrainMnist, RunsInLargerSlurmAllocations) {
  const std::string program = TRAIN_MNIST + " --version";
  std::string launch;
  for (const std::string& word : mpirun(2, {})) launch += word + ' ';
  const std::string srun = has_hydra() ? "srun -n 2 --mpi=pmi2 " : "srun -n 2 --mpi=pmix ";
  const Finished job = run_program(
      {SLURM_RUN, "8", "--", program + " && " + launch + program + " && " + srun + program});
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.all(), "train_mnist (Tasuki)"), 3) << job.all();
}

class SlurmHosts : public TrainMnist {};

TEST_F(SlurmHosts, GetRanksFromSrun) {
  std::string line = "exec " + TASUKI_RUN + " --launcher srun";
  for (const std::string& word : program("result", {"--max-iterations", "3", "-b", "4"}))
    line += ' ' + word;
  const Finished job = run_program({CLUSTER_RUN, "--slots", "2,2", "--shell", "--",
                                    SLURM_RUN + " 4 --hosts /run/hosts -- '" + line + "'"},
                                   100);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "Num process (COMM_WORLD): 4\n"), 1) << job.all();
  for (const char* const row : {"   0  node1 ", "   1  node1 ", "   2  node2 ", "   3  node2 "})
    EXPECT_EQ(count_of(job.out, row), 1) << job.all();
  EXPECT_TRUE(fs::exists(folder / "result/snapshot_iter_3"));
}

}  // namespace
}  // namespace tasuki::testing
