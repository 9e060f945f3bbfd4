// Signals in the middle of training change nothing, however many there are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "communicator/registry.hpp"
#include "core/stop_request.hpp"
#include "core/stopwatch.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/synthetic.hpp"
#include "job/launcher.hpp"
#include "models/lenet.hpp"
#include "models/mlp.hpp"
#include "same_run.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "training/standard_updater.hpp"

namespace tasuki::testing {
namespace {

// The weights after a few steps, the same each time.
Tensor train(bool convnet, Communicator& comm) {
  constexpr std::int64_t steps = 8, batch = 40;
  Classifier model(convnet ? lenet() : std::make_unique<MLP>(784, 200, 10));
  model.initialize(1);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), comm);
  optimizer->setup(model);
  SyntheticOptions options;
  options.example_shape = convnet ? Shape{1, 28, 28} : Shape{784};
  options.count = 4 * batch * comm.size();
  StandardUpdater updater(
      create_shuffled_iterator(share_of(std::make_shared<SyntheticDataset>(options), &comm), batch,
                               3),
      *optimizer, classification_loss(model), {.seed = 3});
  Observation ignored;
  for (std::int64_t step = 0; step < steps; ++step) updater.update(ignored);
  return optimizer->arena().values().clone();
}

// Sends this process a signal, again and again.
class Sender {
 public:
  Sender(int signal, std::chrono::microseconds interval)
      : thread_([this, signal, interval] {
          while (!stopping_) {
            kill(getpid(), signal);
            std::this_thread::sleep_for(interval);
          }
        }) {}
  ~Sender() {
    stopping_ = true;
    thread_.join();
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

 private:
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Signals that were handled, by number, and what handles them besides.
std::array<std::atomic<int>, 64> handled;
std::array<void (*)(int), 64> handlers;

void count(int signal) {
  ++handled[static_cast<std::size_t>(signal)];
  if (const auto answer = handlers[static_cast<std::size_t>(signal)]) answer(signal);
}

// From now on; the present handler stays as it is. SIGPROF gets one like a profiler's.
void count_from_now_on(int signal) {
  const auto i = static_cast<std::size_t>(signal);
  handled[i] = 0;
  struct sigaction present {};
  ASSERT_EQ(sigaction(signal, nullptr, &present), 0);
  if (present.sa_handler == count) return;
  if (present.sa_handler == SIG_DFL) {
    ASSERT_EQ(signal, SIGPROF) << "this signal has no handler";
    present.sa_flags = SA_RESTART | SA_ONSTACK;
  } else {
    handlers[i] = present.sa_handler;
  }
  present.sa_handler = count;
  ASSERT_EQ(sigaction(signal, &present, nullptr), 0);
}

struct Case {
  const char* name;
  int signal;
  bool convnet;
};

class SignalsInTraining : public ::testing::TestWithParam<Case> {};

TEST_P(SignalsInTraining, DoNotChangeWeights) {
  const int signal = GetParam().signal;
  if (signal == SIGCONT && was_started_by_hydra()) GTEST_SKIP() << "Hydra needs no answer";
  const bool convnet = GetParam().convnet;
  set_cpu_threads(1);
  set_conv_algorithm(ConvAlgorithm::direct);
  const auto comm = create_communicator("auto");
  const Tensor undisturbed = train(convnet, *comm);

  const StoppableScope training;  // SIGUSR1 would end a process that does not train
  count_from_now_on(signal);
  const Sender sender(signal, std::chrono::microseconds(250));
  // Those that come while another is pending are one.
  const auto all_have_enough = [&] {
    const int received = handled[static_cast<std::size_t>(signal)];
    const Tensor missing = Tensor::full({}, received < 2000 ? 1 : 0, DType::int32);
    comm->allreduce(missing);
    return missing.item() == 0;
  };
  while (!all_have_enough())
    expect_same_bits(train(convnet, *comm), undisturbed, convnet ? "LeNet" : "MLP");
}

// Each answer to the launcher takes 10 ms.
TEST(Signals, AnswerManyContinueSignalsOnce) {
  Stopwatch watch;
  for (int i = 0; i < 100; ++i) raise(SIGCONT);
  EXPECT_LT(watch.lap(), 0.5);
}

// Also the handlers that MPI has installed.
TEST(Signals, RunOnAlternateStacks) {
  std::set<int> own = {SIGTERM, SIGUSR1};
  if (!was_started_by_hydra()) own.insert(SIGCONT);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction present {};
    if (sigaction(signal, nullptr, &present) != 0) continue;  // the C library's own
    const bool has_handler = present.sa_handler != SIG_DFL && present.sa_handler != SIG_IGN;
    EXPECT_TRUE(has_handler || !own.contains(signal)) << signal;
    EXPECT_TRUE(!has_handler || (present.sa_flags & SA_ONSTACK) != 0) << signal;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SignalsInTraining,
    ::testing::Values(Case{"ContinueMLP", SIGCONT, false}, Case{"ContinueLeNet", SIGCONT, true},
                      Case{"ProfileMLP", SIGPROF, false}, Case{"ProfileLeNet", SIGPROF, true},
                      Case{"StopMLP", SIGUSR1, false}, Case{"StopLeNet", SIGUSR1, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tasuki::testing
