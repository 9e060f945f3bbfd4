// train_mnist_data_parallel on GPUs that the processor simulates (tests/support/simulated_cuda).
#include <gmock/gmock.h>

#include "tensor/backend.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

class ParallelGpus : public TrainMnist {
 protected:
  Finished train(const std::vector<std::string>& flags, const std::string& memory = "900000000") {
    return run_program(program("result", flags), 60,
                       {{"FAKE_CUDA_DEVICES", "2"}, {"FAKE_CUDA_MEMORY", memory}});
  }
};

// The second GPU has so little that it holds no part of more than a mebibyte.
TEST_F(ParallelGpus, FindLargestBatchThatFitsAll) {
  const std::string memory = "900000000,4000000";
  const auto flags = [](const std::vector<std::string>& more) {
    return with({"--devices", "0,1"}, more);
  };
  const Finished first = train(flags({"--find-batchsize", "--split", "3:1"}), memory);
  EXPECT_THAT(first.out, HasSubstr("Largest batch: --batchsize 480 (all examples of a rank)"));
  const Finished second = train(flags({"--find-batchsize", "--split", "1:3"}), memory);
  ASSERT_EQ(second.exit_code, 0) << second.all();
  const std::string before = "Largest batch: --batchsize ";
  ASSERT_THAT(second.out, HasSubstr(before));
  ASSERT_THAT(second.out, HasSubstr(" MB on cuda:0, 4 MB on cuda:1, "));
  const int found = std::stoi(second.out.substr(second.out.find(before) + before.size()));
  EXPECT_GT(found, 300);
  EXPECT_LT(found, 480);
  EXPECT_FALSE(std::filesystem::exists(folder / "result")) << "nothing is trained";

  const auto step_of = [&](int batch) {
    return train(flags({"--split", "1:3", "-b", std::to_string(batch), "--max-iterations", "1"}),
                 memory);
  };
  const Finished fits = step_of(found);
  EXPECT_EQ(fits.exit_code, 0) << fits.all();
  const Finished too_much = step_of(480);
  EXPECT_EQ(too_much.exit_code, 69) << too_much.all();
  EXPECT_THAT(too_much.err, HasSubstr("cuda:1 is out of memory"));
  EXPECT_THAT(too_much.err, HasSubstr("the largest batch that fits is --batchsize "));
}

TEST_F(ParallelGpus, AreAllMonitored) {
  const Finished job = train({"--devices", "0,1", "--epoch", "2", "--monitor", "0.05"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  for (const char* worker : {"\n   0.0  ", "\n   0.1  "}) EXPECT_THAT(job.out, HasSubstr(worker));
  EXPECT_THAT(job.out, HasSubstr("cuda:0, cuda:1"));
  EXPECT_GT(values_of(read_log("result"), "time/compute/min").at(0), 0);
  for (const char* file : {"result/monitor.0.0.csv", "result/monitor.0.1.csv"})
    EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
}

// Several devices are timed to compare them, unless a flag says otherwise; one GPU only if it does.
TEST_F(ParallelGpus, AreTimedAsAFlagSays) {
  const auto has_times = [&](const std::string& devices, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"--devices", devices, "--epoch", "1", "--overwrite"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Finished job = train(words);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const bool has_keys = !values_of(read_log("result"), "time/compute/min").empty();
    EXPECT_EQ(job.out.find("ms/step") != std::string::npos, has_keys) << job.out;
    return has_keys;
  };
  EXPECT_TRUE(has_times("0,1", {}));
  EXPECT_FALSE(has_times("0,1", {"--step-times", "off"}));
  EXPECT_FALSE(has_times("0", {}));
  EXPECT_TRUE(has_times("0", {"--step-times", "on"}));
  EXPECT_FALSE(has_times("cpu,0", {"--step-times", "off"}));
  EXPECT_TRUE(has_times("cpu:2", {"--step-times", "off"})) << "CPUs always are";
}

TEST_F(ParallelGpus, TrainWithCpusInACommonType) {
  for (const std::string devices : {"cpu,0", "0,cpu"}) {
    const Finished refused = train({"--devices", devices, "--dtype", "fp16"});
    EXPECT_EQ(refused.exit_code, 64) << refused.all();
    EXPECT_THAT(
        refused.err,
        HasSubstr("--dtype fp16: CPUs compute in fp32 or bf16; leave CPUs out of --devices"));
  }
  for (const std::string devices : {"cpu,0", "0,cpu"}) {
    const Finished job = train({"--devices", devices, "--dtype", "bf16", "--epoch", "2"});
    ASSERT_EQ(job.exit_code, 0) << job.all();
    const auto losses = values_of(read_log("result"), "main/loss");
    EXPECT_LT(losses.at(1), losses.at(0)) << devices;
  }
}

}  // namespace
}  // namespace tasuki::testing
