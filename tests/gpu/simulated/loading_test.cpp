// Shares that do not fit on the device: threads read their batches ahead.
#include <fmt/core.h>

#include "tests/apps/train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class DataLoading : public TrainMnist {
 protected:
  static constexpr int examples = 12000;  // 9.4 MB

  DataLoading() { write_digits(data, examples, 100); }

  // Losses of 40 steps, by a GPU with so much memory.
  std::vector<double> losses(const std::string& out, int megabytes, int said,
                             const std::vector<std::string>& flags) {
    const Finished job =
        run_program(program(out, with({"-b", "50", "--max-iterations", "40", "--log-every", "1",
                                       "--verbose", "--gpu"},
                                      flags)),
                    60, {{"FAKE_CUDA_MEMORY", std::to_string(megabytes * 1000000)}});
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.err, "12000 examples of 9.5 MB stay on the host"), said) << job.all();
    return values_of(read_log(out), "main/loss");
  }
};

TEST_F(DataLoading, MatchesDeviceDataForAnyNumberOfThreads) {
  const auto expected = losses("resident", 900, 0, {});
  ASSERT_EQ(expected.size(), 40U);
  for (const char* threads : {"0", "1", "3"})
    for (const char* graph : {"auto", "off"}) {
      SCOPED_TRACE(fmt::format("{} threads, graph {}", threads, graph));
      EXPECT_EQ(losses("copied", 18, 1, {"--loader-threads", threads, "--graph", graph}), expected);
    }
}

}  // namespace
}  // namespace tasuki::testing
