// What a training step costs on a GPU, counted on the simulated one: copies, operations of its
// queues, allocations and waits, of steps that are replayed and of others.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/apps/train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using Costs = std::map<std::string, double>;

class StepCosts : public TrainMnist {
 protected:
  // Of a step long after the first ones: two runs within one epoch differ by twenty of them.
  Costs of_step(const std::vector<std::string>& flags) {
    Costs costs = of_run(flags, 40);
    for (const auto& [name, count] : of_run(flags, 20)) costs[name] = (costs[name] - count) / 20;
    for (const auto& [name, count] : costs) fmt::print("{} {} a step\n", count, name);
    return costs;
  }

 private:
  Costs of_run(std::vector<std::string> flags, int iterations) {
    const std::string file = folder / "counts";
    flags.insert(flags.end(),
                 {"-b", "10", "--gpu", "--max-iterations", std::to_string(iterations)});
    const Finished run = run_program(
        program("out", flags), 60, {{"SIMULATED_CUDA_COUNTS", file}, {"TASUKI_CHECK_MEMORY", "0"}});
    EXPECT_EQ(run.exit_code, 0) << run.all();
    Costs costs;
    std::ifstream lines(file);
    std::string name;
    for (double count = 0; lines >> name >> count;) costs[name] = count;
    EXPECT_EQ(costs.size(), 5U);
    return costs;
  }
};

// One copy brings all that differs from step to step, whether or not the step is replayed.
TEST_F(StepCosts, AreOneCopyWithoutWaitingForResidentData) {
  for (const std::string graph : {"off", "on"}) {
    SCOPED_TRACE(graph);
    const Costs costs = of_step({"--graph", graph});
    EXPECT_EQ(costs.at("copies"), 1);
    // Five note the clock. One more does so after each pause of the host (DeviceClock::resume), and
    // a busy machine makes it pause in some of the steps.
    EXPECT_LT(costs.at("operations"), 24);
    EXPECT_EQ(costs.at("graphs"), graph == "on" ? 1 : 0);
    EXPECT_EQ(costs.at("allocations"), 0);
    EXPECT_EQ(costs.at("waits"), 0);
  }
}

}  // namespace
}  // namespace tasuki::testing
