// train_mnist_data_parallel as users start it.
#include <gmock/gmock.h>

#include "program/flags/flag_groups.hpp"
#include "tensor/backend.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataParallel : public TrainMnist {
 protected:
  Finished train(const std::string& out, const std::vector<std::string>& flags) {
    return run_program(program(out, flags));
  }
  std::vector<double> values(const std::string& out, const std::vector<std::string>& flags,
                             const std::string& key) {
    std::vector<std::string> all = {"--optimizer", "momentum_sgd", "--batchsize", "48"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Finished job = train(out, all);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return values_of(read_log(out), key);
  }
};

TEST_F(DataParallel, TrainsAlikeWithAnyNumberOfWorkers) {
  const std::vector<std::string> flags = {"--max-iterations", "100", "--log-every", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return more;
  };
  const auto one = values("one", with({"--devices", "cpu:1"}), "main/loss");
  ASSERT_EQ(one.size(), 100u);
  EXPECT_LT(one.back(), one.front());
  const std::vector<std::vector<std::string>> others = {
      {"--devices", "cpu:2"},
      {"--devices", "cpu:2", "--split", "3:1"},
      {"--devices", "cpu,cpu,cpu", "--split", "auto"}};
  for (const auto& workers : others) {
    const auto found = values("many", with(workers), "main/loss");
    ASSERT_EQ(found.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(found[i], one[i], 1e-4) << i;
  }
}

TEST_F(DataParallel, LearnsAndEvaluatesWithAllWorkers) {
  const auto accuracy = values("result", {"--epoch", "8"}, "validation/main/accuracy");
  ASSERT_EQ(accuracy.size(), 8u);
  EXPECT_GT(accuracy.back(), 0.9);
}

TEST_F(DataParallel, ComputesInTheRequestedType) {
  const auto losses = values("result", {"--epoch", "2", "--dtype", "bf16"}, "main/loss");
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_LT(losses[1], losses[0]);
}

TEST_F(DataParallel, ShowsStepTimes) {
  const Finished job = train("result", {"--devices", "cpu:2", "--epoch", "1"});
  EXPECT_THAT(job.out, HasSubstr("\nworker    input       forward"));
  EXPECT_GT(values_of(read_log("result"), "time/compute/max").at(0), 0);
}

TEST_F(DataParallel, ListsItsWorkers) {
  const Finished job = train("result", {"--devices", "cpu:3", "--split", "1:2:1", "--epoch", "1"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_THAT(job.out, HasSubstr("Workers: cpu:3, 1 thread each on a CPU, batches split 1:2:1\n"));
}

TEST_F(DataParallel, ResumesLikeAnUninterruptedRun) {
  const std::vector<std::string> flags = {"--snapshot-every", "1", "--epoch"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return more;
  };
  const auto whole = values("whole", with({"3"}), "main/loss");
  values("parts", with({"2"}), "main/loss");
  const std::string snapshot = folder / "parts/snapshot_iter_20";
  EXPECT_EQ(values("parts", with({"3", "--resume", snapshot}), "main/loss"), whole);
}

TEST_F(DataParallel, RejectsUnsupportedFlagsInOneLine) {
  const auto expect = [&](const std::vector<std::string>& flags, int exit_code,
                          const std::string& part) {
    const Finished job = train("result", flags);
    EXPECT_EQ(job.exit_code, exit_code) << job.all();
    EXPECT_THAT(job.err, HasSubstr(part));
  };
  const std::string devices =
      "--devices: expected numbers of different GPUs (0,1), or a number of workers";
  for (const char* list : {"gpu", "0,0", "cpu:0", "cpu:x", "1,,2", "cpu:2000", "-1"})
    expect({std::string("--devices=") + list}, 64, devices);
  expect({"--split", "3:x"}, 64, "--split: expected even, auto, or parts such as 3:1, found '3:x'");
  expect({"--split", "1:2:3"}, 64, "--split: expected a part for each of 2 devices");
  expect({"--split", "0:0"}, 64, "at least one of them above 0");
  expect({"--autotune"}, 64,
         "--autotune chooses algorithms on GPUs, and this run has none; name one with --devices");
  expect({"--graph", "on"}, 64, "--graph on: steps on several devices of one process");
  expect(
      {"--sync-bn"}, 64,
      "--sync-bn and --devices: batch normalisation cannot use the statistics of several devices");
  const Finished two = run(2, "result", {});
  EXPECT_EQ(two.exit_code, 64) << two.all();
  EXPECT_THAT(two.err,
              HasSubstr("is one process for several devices, but 2 processes were started"));
}

TEST_F(DataParallel, NamesMissingGpus) {
  const Finished job = train("result", {"--devices", "0,1023", "--epoch", "1"});
  EXPECT_THAT(job.err, HasSubstr("--devices: "));
  EXPECT_THAT(job.err, ::testing::Not(HasSubstr("--gpu")));
  EXPECT_TRUE(job.exit_code == 69 || job.exit_code == 78) << job.all();
}

TEST(Devices, RoundTripAsText) {
  for (const std::string text : {"cpu:2", "0,1", "1", "0,cpu:3,2"})
    EXPECT_EQ(program::devices_text(program::parse_devices(text)), text);
  EXPECT_THAT(program::parse_devices("1,cpu"), ElementsAre(Device::cuda(1), Device::cpu()));
}

}  // namespace
}  // namespace tasuki::testing
