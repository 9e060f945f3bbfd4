// What a training step costs on a GPU, counted on the simulated one: launches, copies, allocations
// and waits, of steps that are replayed and of others.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "saving/npz.hpp"
#include "tests/apps/training_job.hpp"
#include "tests/support/digits.hpp"

namespace tasuki::testing {
namespace {

// By the names of simulated_cuda/counts.hpp; 0 for what did not occur.
using Costs = std::map<std::string, double>;

// Of operations in a step.
struct Bounds {
  double launches, copies, fillings;
};

constexpr const char* note_of_time = "launch.stamp_kernel";

// Recorded steps and others.
class StepCosts : public ::testing::TestWithParam<std::string> {
 protected:
  StepCosts() {
    write_digits(folder / "digits", 480, 100);
    std::ofstream text(folder / "text");
    for (std::int64_t i = 0; i < 4000; ++i) text << "abcdefgh ijk\n"[i * i % 13];
    write_images("images", 60);
    write_images("few", 8);
  }

  static void expect_at_most(const Bounds& bounds, const Costs& costs) {
    EXPECT_LE(launches(costs), bounds.launches);
    EXPECT_LE(number_of(costs, "copy"), bounds.copies);
    EXPECT_LE(number_of(costs, "filling"), bounds.fillings);
  }
  // Without waiting for the device or allocating its memory.
  void expect_smooth(const Bounds& bounds, const Costs& costs) {
    expect_at_most(bounds, costs);
    EXPECT_EQ(number_of(costs, "graph"), GetParam() == "on" ? 1 : 0);
    // A slow machine may wait now and then: for a copy of many steps ago.
    EXPECT_LT(number_of(costs, "allocation"), 0.5);
    EXPECT_LT(number_of(costs, "wait"), 0.5);
  }

  // Of a step after the `first` ones, which are not replayed, on the first of so many ranks: two
  // runs within one epoch differ by so many.
  static Costs of_step(const std::vector<std::string>& words, int ranks, int first = 10,
                       int steps = 16) {
    Costs costs = of_run(words, ranks, first);
    for (const auto& [name, count] : of_run(words, ranks, first + steps))
      costs[name] = (count - costs[name]) / steps;
    for (const auto& [name, count] : costs)
      if (count != 0) fmt::print("{} {} a step\n", count, name);
    return costs;
  }
  static double number_of(const Costs& costs, const std::string& name) {
    const auto found = costs.find(name);
    return found == costs.end() ? 0 : found->second;
  }

  // Kernels and calls of libraries.
  static double launches(const Costs& costs) {
    double sum = 0;
    for (const auto& [name, count] : costs)
      if (name.starts_with("launch.")) sum += count;
    return sum;
  }

  // Neither adding nor rounding them.
  static void expect_no_work_with_biases(const Costs& costs) {
    for (const auto& [name, count] : costs)
      if (name.starts_with("launch.add_bias") || name.starts_with("launch.convert")) {
        EXPECT_EQ(count, 0) << name;
      }
  }

  TemporaryFolder folder;

 private:
  void write_images(const std::string& name, std::int32_t count) {
    std::filesystem::create_directories(folder / name);
    write_npy(name + "/x.npy", Tensor::zeros({count, 3, 8, 8}, DType::uint8));
    const Tensor labels = Tensor::zeros({count}, DType::int32);
    for (std::int32_t i = 0; i < count; ++i) labels.data<std::int32_t>()[i] = i % 8;
    write_npy(name + "/t.npy", labels);
  }
  void write_npy(const std::string& file, const Tensor& values) {
    std::ofstream(folder / file, std::ios::binary)
        << npy_header(values)
        << std::string_view(static_cast<const char*>(values.raw()), values.bytes());
  }

  static Costs of_run(std::vector<std::string> words, int ranks, int iterations) {
    const TemporaryFolder work;
    words.insert(words.end(), {"--threads", "1", "--graph", GetParam(), "--gpu", "--out",
                               work / "out", "--max-iterations", std::to_string(iterations)});
    if (ranks > 1) {
      // Each rank writes a file of its own.
      const std::string own = "SIMULATED_CUDA_COUNTS=\"$COUNTS.$" + rank_variable() + "\"";
      words.insert(words.begin(), {"sh", "-c", own + R"( exec "$0" "$@")"});
      words = mpirun(ranks, words);
    }
    const std::string file = work / "counts";
    const Finished run = run_program(words, 60,
                                     {{ranks > 1 ? "COUNTS" : "SIMULATED_CUDA_COUNTS", file},
                                      {"FAKE_CUDA_DEVICES", std::to_string(ranks)},
                                      {"TASUKI_CHECK_MEMORY", "0"}});
    EXPECT_EQ(run.exit_code, 0) << run.all();
    Costs costs;
    std::ifstream lines(ranks > 1 ? file + ".0" : file);
    std::string name;
    for (double count = 0; lines >> name >> count;) costs[name] = count;
    EXPECT_GT(costs.size(), 5U);
    return costs;
  }
};

// Eight products of matrices; one copy brings all that differs from step to step.
TEST_P(StepCosts, Perceptron) {
  expect_smooth({16, 1, 0},
                of_step({TRAIN_MNIST, "--unit", "32", "-b", "10", "--data", folder / "digits"}, 1));
}

// The forward pass, the backward pass and the update begin. There is one more after each pause of
// the host (DeviceClock::resume), and a busy machine makes it pause in some steps.
TEST_P(StepCosts, TimesThatAreAskedFor) {
  const Costs costs = of_step(
      {TRAIN_MNIST, "--unit", "32", "-b", "10", "--step-times", "on", "--data", folder / "digits"},
      1);
  EXPECT_GE(number_of(costs, note_of_time), 3);
  EXPECT_LT(number_of(costs, note_of_time), 4.5);
}

TEST_P(StepCosts, LeNet) {
  expect_smooth({26, 1, 0}, of_step({TRAIN_LENET, "-b", "2", "--data", folder / "digits"}, 1));
}

// Seven convolutions, whose biases and ReLU cost no launch, neither does rounding the biases.
TEST_P(StepCosts, ConvolutionsWithRelu) {
  const Costs costs =
      of_step({TRAIN_CIFAR, "--arch", "vgg_small", "-b", "1", "--dtype", "bf16", "--dataset", "npy",
               "--data", folder / "images", "--test-data", folder / "images"},
              1);
  EXPECT_EQ(number_of(costs, "launch.library"), 7 + 6 + 7);
  expect_no_work_with_biases(costs);
}

// The images are small: their size changes no number of launches.
TEST_P(StepCosts, ConvolutionsWithBatchNorm) {
  expect_at_most({118, 1, 0},
                 of_step({TRAIN_CIFAR, "--arch", "cnn10", "-b", "1", "--dtype", "bf16", "--dataset",
                          "npy", "--data", folder / "images", "--test-data", folder / "few"},
                         1, 4, 3));
}

// Frozen layers have copies in 16 bits, too.
TEST_P(StepCosts, FrozenConvolutionsWithRelu) {
  const std::string frozen =
      "predictor/conv1_1,predictor/conv1_2,predictor/conv2_1,predictor/conv2_2,predictor/conv3_1,"
      "predictor/conv3_2,predictor/conv3_3";
  const Costs costs =
      of_step({TRAIN_CIFAR, "--arch", "vgg_small", "-b", "1", "--dtype", "bf16", "--dataset", "npy",
               "--data", folder / "images", "--test-data", folder / "images", "--freeze", frozen},
              1);
  EXPECT_EQ(number_of(costs, "launch.library"), 7);
  expect_no_work_with_biases(costs);
}

// cuDNN wants the filters of both convolutions in another order.
TEST_P(StepCosts, FiltersOf16Bits) {
  const Costs costs =
      of_step({TRAIN_LENET, "-b", "2", "--dtype", "bf16", "--data", folder / "digits"}, 1);
  EXPECT_EQ(number_of(costs, "launch.to_channels_last_kernel"), 1);
}

TEST_P(StepCosts, Transformer) {
  expect_smooth({55, 3, 1},
                of_step({TRAIN_LM, "--layers", "1", "--heads", "1", "--width", "16", "--context",
                         "8", "--global-batch", "2", "--data", folder / "text"},
                        1));
}

// Steps that are not recorded: batches of sentences differ in the number of targets.
class StepCostsOfSentences : public StepCosts {};

// Three words and the end of each sentence.
TEST_P(StepCostsOfSentences, Lstm) {
  for (const char* const name : {"source", "target"}) {
    std::ofstream sentences(folder / name);
    for (int i = 0; i < 80; ++i) sentences << "a b c\n";
  }
  expect_at_most({92, 20, 12},
                 of_step({TRAIN_SEQ2SEQ, "--unit", "8", "--layer", "1", "-b", "2", "--source",
                          folder / "source", "--target", folder / "target"},
                         1));
}

// The end of the product computes it: the pass over its result is not there.
TEST_P(StepCosts, GeluOfTheFormThatCublasltHas) {
  const std::vector<std::string> words = {
      TRAIN_LM, "--arch",  "gpt2",         "--layers",  "2", "--heads",
      "1",      "--width", "16",           "--context", "8", "--global-batch",
      "2",      "--data",  folder / "text"};
  const Costs fused = of_step(words, 1);
  ::setenv("SIMULATED_CUBLASLT_GELU", "erf", 1);
  const Costs apart = of_step(words, 1);
  ::unsetenv("SIMULATED_CUBLASLT_GELU");
  EXPECT_EQ(launches(apart) - launches(fused), 2);  // a block each
  const std::string product = "launch.cublasLtMatmul";
  EXPECT_EQ(number_of(apart, product), number_of(fused, product));
}

// The sum of gradients, and the weights that each of the ranks has updated: of all ranks at once.
TEST_P(StepCosts, DividedStates) {
  const Costs costs = of_step({TRAIN_MNIST, "--unit", "32", "--global-batch", "10", "--shard",
                               "states", "--data", folder / "digits"},
                              2);
  EXPECT_EQ(number_of(costs, "launch.nccl"), 2);
}

// The weights of two layers are larger than a range of 4 MiB: a sum for each, or one of all
// gradients.
TEST_P(StepCosts, LargeParameters) {
  for (const auto& [exchange, sums] : {std::pair{"overlapped", 2}, {"whole", 1}}) {
    const Costs costs = of_step({TRAIN_MNIST, "--unit", "1344", "--global-batch", "2", "--exchange",
                                 exchange, "--data", folder / "digits"},
                                2, 3, 2);
    EXPECT_EQ(number_of(costs, "launch.nccl"), sums) << exchange;
  }
}

INSTANTIATE_TEST_SUITE_P(Graph, StepCosts, ::testing::Values("off", "on"),
                         [](const auto& graph) { return graph.param; });
INSTANTIATE_TEST_SUITE_P(Graph, StepCostsOfSentences, ::testing::Values("off"),
                         [](const auto& graph) { return graph.param; });

}  // namespace
}  // namespace tasuki::testing
