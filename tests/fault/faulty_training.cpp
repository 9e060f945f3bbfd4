// A short training on made-up data in which one rank fails on purpose.
//
//   faulty_training RANK MOMENT KIND FOLDER [STALL_SECONDS [SILENCE_SECONDS [flood]]]
//
// RANK: -1 for all of them. MOMENT: unannounced (before it says that it is about to train), start
// (before any collective), forward, loader, extension, evaluator. KIND: throw, shared (marked as
// met by every rank), foreign (not a std::exception), abort, exit0, exit3, return0, return3 (from
// the job), kill, segv; stop (SIGSTOP), loop (forever), skip, order and size (leaves out a barrier
// and an allreduce of the others, calls them in the other order, reduces an array of another size;
// extension alone), slow (half a second in each of the first 12 calls), late (0.8 x STALL_SECONDS
// in each of 100 calls, loader alone), nan and huge (an input that makes the loss so, forward
// alone), once and always (as nan, and such steps are left out; from the third one on), flip (one
// bit of a weight, forward and extension), ask (sends mpirun, or itself, SIGUSR2 three times, and
// waits a second), cut (takes node2's network away, in tests/cluster/run.sh), debug (another
// process holds this one for 2.5 times STALL_SECONDS, as a debugger would), freeze_launcher (stops
// mpirun or its daemon, and lets it go on 2 s later), fork_exit, fork_throw, fork_return,
// fork_terminate and fork_signal (a forked child ends so; its status is left in FOLDER/child),
// background (starts a process that holds the output for 300 s). STALL_SECONDS: after which the
// watchdog ends the job; it warns after half of them. SILENCE_SECONDS: the limit for silence,
// else 15. Where the fault is one of training, these limits count from the second batch on, as
// starting takes long on a loaded machine. flood: one rank of node2 sends node1 datagrams of all
// kinds that are to be refused (datagram_flood.hpp). Each rank leaves its process id in
// FOLDER/pid.<rank>; the one that fails the time in FOLDER/time and Open MPI's number of the job in
// FOLDER/job.

#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "communicator/registry.hpp"
#include "core/stop_request.hpp"
#include "datagram_flood.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/synthetic.hpp"
#include "hold_as_debugger.hpp"
#include "job/launcher.hpp"
#include "job/run_job.hpp"
#include "job/stall_limits.hpp"
#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "tests/support/launch.hpp"
#include "training/extensions/check_replicas.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// Leaves the training for its end.
struct Return {
  int exit_code;
};

// Says by a file that objects of the job were destroyed in a forked child.
struct DestroyedInChild {
  std::filesystem::path file;
  pid_t owner = getpid();
  ~DestroyedInChild() {
    if (getpid() != owner) std::ofstream(file) << getpid() << std::flush;
  }
};

// In a forked child, whose wait status becomes the contents of a file.
void end_child_by(const std::string& kind, const std::filesystem::path& folder) {
  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    std::ofstream(folder / "child") << status << std::flush;
    return;
  }
  if (kind == "fork_exit") std::exit(0);
  if (kind == "fork_throw") throw std::runtime_error("thrown in a child");
  if (kind == "fork_return") throw Return{5};
  if (kind == "fork_terminate") std::terminate();
  for (const int harmless : {SIGUSR1, SIGUSR2, SIGCONT}) raise(harmless);
  raise(SIGTERM);
  std::abort();
}

// Open MPI's number of the job, which stands before the rank in the names of shared memory:
// /dev/shm/vader_segment.HOST.USER.JOB.RANK, or sm_segment in version 5.
std::string job_number() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/dev/shm/") == line.npos || line.find("_segment.") == line.npos) continue;
    const auto end = line.rfind('.'), begin = line.rfind('.', end - 1) + 1;
    return line.substr(begin, end - begin);
  }
  return "";
}

void fail_as(const std::string& kind, const std::string& moment,
             const std::filesystem::path& folder) {
  std::ofstream(folder / "job") << job_number() << std::flush;
  std::ofstream(folder / "time") << fmt::format("{:.9f}", testing::shared_clock()) << std::flush;
  if (kind == "throw") throw std::runtime_error("planted in " + moment);
  if (kind == "shared") fail_everywhere(ErrorKind::config, "planted in {}", moment);
  if (kind == "foreign") throw 42;
  if (kind == "exit0") std::exit(0);
  if (kind == "exit3") std::exit(3);
  if (kind == "return0") throw Return{0};
  if (kind == "return3") throw Return{3};
  for (const char* const done_elsewhere :
       {"skip", "order", "size", "nan", "huge", "once", "always", "flip"})
    if (kind == done_elsewhere) return;
  if (kind == "ask") {
    // Hydra does not pass it on.
    const pid_t launcher = was_started_by_hydra() ? 0 : launcher_process();
    for (int i = 0; i < 3; ++i) kill(launcher != 0 ? launcher : getpid(), SIGUSR2);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return;
  }
  if (kind == "cut") {
    if (std::system("ip -n switch link set node2 down") != 0) std::abort();
    return;
  }
  if (kind == "debug") {
    testing::hold_as_debugger(2.5 * stall_limits().timeout);
    return;
  }
  if (kind.starts_with("fork_")) return end_child_by(kind, folder);
  if (kind == "background") {
    if (std::system("sleep 300 &") != 0) std::abort();
    return;
  }
  if (kind == "freeze_launcher") {
    const pid_t launcher = launcher_process();
    kill(launcher, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    kill(launcher, SIGCONT);
    return;
  }
  if (kind == "stop") {
    kill(getpid(), SIGSTOP);
    return;
  }
  for (volatile bool goes_on = kind == "loop"; goes_on;) {
  }
  if (kind == "kill") kill(getpid(), SIGKILL);
  if (kind == "segv") kill(getpid(), SIGSEGV);
  std::abort();
}

// Whether a job with this fault goes on to its end, which then comes after an epoch.
bool goes_on(const std::string& kind) {
  return kind == "slow" || kind == "debug" || kind == "freeze_launcher" || kind == "once" ||
         kind == "ask" || kind == "background" || kind.starts_with("fork_");
}

// After how many iterations other jobs end, if the fault does not end them: without one after 20
// epochs.
std::optional<std::int64_t> iterations_of(const std::string& kind) {
  if (kind == "once" || kind == "always") return 15;
  if (kind == "late") return 102;
  return std::nullopt;
}

// Fails in the third call on the chosen rank at the chosen moment.
class Fault {
 public:
  Fault(char** argv, int rank)
      : chosen_(std::stoi(argv[1]) == rank || std::stoi(argv[1]) == -1),
        moment_(argv[2]),
        kind_(argv[3]),
        folder_(argv[4]) {}
  void at(const std::string& moment, int call) const {
    if (!chosen_ || moment != moment_) return;
    if (kind_ == "slow" && call <= 12) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    if (kind_ == "late" && call > 2)  // the limit counts from the second call on
      std::this_thread::sleep_for(std::chrono::duration<double>(0.8 * stall_limits().timeout));
    if (kind_ != "slow" && kind_ != "late" && call == 3) fail_as(kind_, moment_, folder_);
    if (flips() && call == 3) flip(*optimizer_);
  }
  bool changes_loss() const { return kind_ == "nan" || kind_ == "huge" || leaves_out(); }
  bool leaves_out() const { return kind_ == "once" || kind_ == "always"; }
  // What the inputs of this call are to be multiplied by.
  float factor(int call) const {
    if (!chosen_ || call < 3 || (call > 3 && kind_ != "always")) return 1;
    return kind_ == "huge" ? 1e20F : changes_loss() ? NAN : 1;
  }
  bool is(const std::string& kind) const { return chosen_ && kind_ == kind; }
  bool flips() const { return kind_ == "flip"; }
  void flips_weights_of(const Optimizer& optimizer) { optimizer_ = &optimizer; }

 private:
  static void flip(const Optimizer& optimizer) {
    float& weight = optimizer.arena().values().data<float>()[100];
    weight = std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight) ^ (1U << 12));
  }

  bool chosen_;
  std::string moment_, kind_;
  std::filesystem::path folder_;
  const Optimizer* optimizer_ = nullptr;
};

// What all ranks do together in the third iteration, and the one that fails in its own way.
void meet(Communicator& comm, const Fault& fault) {
  if (fault.is("skip")) return;
  if (!fault.is("order")) comm.barrier();
  comm.allreduce(Tensor::zeros({fault.is("size") ? 11 : 10}));
  if (fault.is("order")) comm.barrier();
}

// Batches as `inner` gives them.
class FaultyIterator : public ForwardingIterator {
 public:
  FaultyIterator(std::unique_ptr<Iterator> inner, const Fault& fault, const StallLimits& limits)
      : ForwardingIterator(std::move(inner)), fault_(fault), limits_(limits) {}
  Batch next() override {
    if (++calls_ == 2) set_stall_limits(limits_);
    fault_.at("loader", calls_);
    return inner().next();
  }

 private:
  const Fault& fault_;
  StallLimits limits_;
  int calls_ = 0;
};

LossFunction faulty(const LossFunction& loss, const Fault& fault, const std::string& moment) {
  return [loss, &fault, moment, calls = 0](const Batch& batch, Observation& report) mutable {
    fault.at(moment, ++calls);
    if (moment == "forward")
      for (float& x : batch["x"].span<float>()) x *= fault.factor(calls);
    return loss(batch, report);
  };
}

int train(int argc, char** argv, const StallLimits& limits) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::filesystem::path folder = argv[4];
  std::ofstream(folder / fmt::format("pid.{}", rank)) << getpid() << std::flush;
  Fault fault(argv, rank);
  fault.at("unannounced", 3);
  if (rank == 0) announce_training();
  // A signal for all ranks is sent when the first one is in its loop.
  MPI_Barrier(MPI_COMM_WORLD);
  fault.at("start", 3);
  std::unique_ptr<testing::DatagramFlood> flood;
  if (argc == 8 && rank == 2) flood = std::make_unique<testing::DatagramFlood>();

  const auto comm = create_communicator("auto");
  Classifier model(std::make_unique<MLP>(784, 16, 10));
  model.initialize(0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm);
  optimizer->setup(model);
  fault.flips_weights_of(*optimizer);
  const Share share =
      take_share(std::make_shared<SyntheticDataset>(SyntheticOptions{.count = 1200}), comm->size(),
                 comm->rank());

  const DestroyedInChild beside_trainer{folder / "destroyed"};
  Trainer trainer(
      std::make_unique<StandardUpdater>(
          std::make_unique<FaultyIterator>(create_shuffled_iterator(share, 20, 0), fault, limits),
          *optimizer, faulty(classification_loss(model), fault, "forward")),
      stop_after(goes_on(argv[3]) ? 1 : 20, iterations_of(argv[3])), folder / "result");
  trainer.extend(std::make_unique<Evaluator>(
      create_serial_iterator(share, 20), faulty(classification_loss(model), fault, "evaluator")));
  if (fault.leaves_out()) optimizer->guard().skip_non_finite();
  if (fault.flips()) trainer.extend(check_replicas(2));
  if (fault.changes_loss() || fault.flips()) {
    trainer.extend(std::make_unique<FailOnNonNumber>());
    trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration)));
    trainer.extend(std::make_unique<Snapshot>(), {.trigger = every(1, Unit::iteration)});
  }
  int iterations = 0;
  trainer.extend(make_extension("planted", [&](Trainer&) {
    fault.at("extension", ++iterations);
    if (iterations == 3) meet(*comm, fault);
  }));
  trainer.run();
  return 0;
}

}  // namespace
}  // namespace tasuki

int main(int argc, char** argv) {
  if (argc < 5 || argc > 8) return 64;
  tasuki::StallLimits limits;
  if (argc >= 6) {
    limits.timeout = std::stod(argv[5]);
    limits.warning = limits.timeout / 2;
  }
  if (argc >= 7) limits.silence = std::stod(argv[6]);
  if (std::string_view(argv[2]) == "none") tasuki::set_stall_limits(limits);
  return tasuki::run_job(argc, argv, [&limits](int count, char** words) {
    try {
      return tasuki::train(count, words, limits);
    } catch (const tasuki::Return& early) {
      return early.exit_code;
    }
  });
}
