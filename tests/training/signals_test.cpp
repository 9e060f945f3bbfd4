// Signals in the middle of training change nothing, however many there are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "same_run.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/models/lenet.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/cpu/convolution.hpp"

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
      *optimizer, classification_loss(model), {.seed = 3, .communicator = &comm});
  Observation ignored;
  for (std::int64_t step = 0; step < steps; ++step) updater.update(ignored);
  return optimizer->arena().values().clone();
}

// Sends this process a signal, again and again.
class Sender {
 public:
  Sender(int signal, std::chrono::microseconds interval)
      : thread_([this, signal, interval] {
          for (; !stopping_; ++sent_) {
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
  int sent() const { return sent_; }

 private:
  std::atomic<bool> stopping_ = false;
  std::atomic<int> sent_ = 0;
  std::thread thread_;
};

struct Case {
  int signal;
  bool convnet;
};

class SignalsInTraining : public ::testing::TestWithParam<Case> {};

TEST_P(SignalsInTraining, LeaveTheWeightsAlone) {
  const int signal = GetParam().signal;
  const bool convnet = GetParam().convnet;
  set_cpu_threads(1);
  set_conv_algorithm(ConvAlgorithm::direct);
  const auto comm = create_communicator("auto");
  const Tensor undisturbed = train(convnet, *comm);

  // As a profiler handles its signal. SIGCONT is the job's.
  static std::atomic<int> profiled = 0;
  profiled = 0;
  struct sigaction counting {};
  counting.sa_handler = [](int) { ++profiled; };
  counting.sa_flags = SA_RESTART | SA_ONSTACK;
  ASSERT_EQ(sigaction(SIGPROF, &counting, nullptr), 0);

  // The handler of SIGCONT takes 10 ms; faster ones would be one.
  const int wanted = signal == SIGPROF ? 2000 : 300;
  const Sender sender(signal, std::chrono::microseconds(signal == SIGPROF ? 250 : 12'000));
  // Those that come while another is pending are one, as the counted ones show.
  const auto all_have_enough = [&] {
    const int received = signal == SIGPROF ? profiled.load() : sender.sent();
    const Tensor missing = Tensor::full({}, received < wanted ? 1 : 0, DType::int32);
    comm->allreduce(missing);
    return missing.item() == 0;
  };
  while (!all_have_enough())
    expect_same_bits(train(convnet, *comm), undisturbed, convnet ? "LeNet" : "MLP");
}

TEST(Signals, AreHandledOnAlternateStacks) {
  for (const int signal : {SIGCONT, SIGTERM, SIGUSR1}) {
    struct sigaction present {};
    ASSERT_EQ(sigaction(signal, nullptr, &present), 0);
    EXPECT_NE(present.sa_handler, SIG_DFL) << signal;
    EXPECT_TRUE(present.sa_flags & SA_ONSTACK) << signal;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SignalsInTraining,
                         ::testing::Values(Case{SIGCONT, false}, Case{SIGCONT, true},
                                           Case{SIGPROF, false}, Case{SIGPROF, true}),
                         [](const auto& info) {
                           return std::string(info.param.signal == SIGCONT ? "Continue"
                                                                           : "Profile") +
                                  (info.param.convnet ? "LeNet" : "MLP");
                         });

}  // namespace
}  // namespace tasuki::testing
