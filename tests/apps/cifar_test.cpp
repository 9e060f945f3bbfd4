// train_cifar as users start it.

#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "tests/support/pictures.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainCifar : public TrainingJob {
 protected:
  TrainCifar() : TrainingJob({TRAIN_CIFAR, "--conv", "direct"}) { write_pictures(data, 120, 20); }
};

TEST_F(TrainCifar, ChoosesDefaultsByModel) {
  struct Case {
    std::string arch;
    std::vector<std::string> lines;
  };
  const Case cases[] = {
      {"cnn10",
       {"batchsize = 128 ", "epoch = 100 ", "lr = 0.1 ", "lr-scaling = linear ",
        "lr-reference-batch = 128 ", "lr-schedule = steps ", "weight-decay = 0 "}},
      {"vgg_small", {"batchsize = 64 ", "optimizer = adam ", "lr = 0.001 ", "lr-scaling = none "}},
      {"vgg16_bn",
       {"batchsize = 64 ", "epoch = 300 ", "optimizer = momentum_sgd ", "lr = 0.05 ",
        "weight-decay = 0.0005 ", "lr-schedule = halving "}}};
  for (const Case& c : cases) {
    const Finished job = run_program({TRAIN_CIFAR, "--print-config", "--arch", c.arch});
    ASSERT_EQ(job.exit_code, 0) << job.all();
    for (const std::string& line : c.lines)
      EXPECT_EQ(count_of(job.out, "\n" + line), 1) << c.arch << ": " << line << job.out;
  }
}

TEST_F(TrainCifar, TrainsModelsWithAndWithoutNormalisation) {
  for (const char* arch : {"cnn10", "vgg_small"}) {
    SCOPED_TRACE(arch);
    const auto log =
        log_of(2, arch, {"--arch", arch, "--max-iterations", "1", "--global-batch", "4"});
    ASSERT_EQ(log.size(), 1u);
    EXPECT_NEAR(log[0].at("main/loss").get<double>(), 2.3, 1.5);
  }
}

TEST_F(TrainCifar, LearnsOnTwoRanks) {
  // So few steps teach where the squares are, not what they look like elsewhere.
  const auto log =
      log_of(2, "result", {"--arch", "resnet20", "-b", "15", "--epoch", "5", "--augment=false"});
  const auto accuracy = values_of(log, "validation/main/accuracy");
  ASSERT_EQ(accuracy.size(), 5u);
  EXPECT_LT(log.back().at("main/loss"), 0.8 * log.front().at("main/loss").get<double>());
}

TEST_F(TrainCifar, SupportsCifar100) {
  std::filesystem::remove_all(data);
  write_pictures(data, 40, 10, 100);
  const Finished job = run(
      1, "result", {"--dataset", "cifar100", "--arch", "resnet20", "--dry-run", "--warmup", "5"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_NE(job.out.find("Example: 3x32x32, 100 classes"), std::string::npos) << job.out;
  EXPECT_NE(job.out.find("278324 in all"), std::string::npos) << job.out;
  EXPECT_NE(job.out.find("Model: resnet20\n"), std::string::npos) << job.out;
  EXPECT_NE(
      job.out.find("Optimizer: MomentumSGD, lr 0.1, momentum 0.9, weight_decay 0.0001; lr x 0.1 "
                   "after 50 % and 80 % of the epochs, rising for 5 epochs\n"),
      std::string::npos)
      << job.out;
}

// Two shards make the same global batches on one rank and on two. Without --sync-bn, two ranks
// normalise by half of each.
TEST_F(TrainCifar, SyncBnUsesGlobalBatchStatistics) {
  const std::vector<std::string> common = {"--arch",           "cnn10", "--global-batch", "5",
                                           "--max-iterations", "3",     "--shards",       "2",
                                           "--log-every",      "1",     "--lr",           "0.01",
                                           "--test-examples",  "1",     "--augment=false"};
  for (const auto& [type, tolerance] : {std::pair{"fp32", 1e-4}, std::pair{"bf16", 2e-3}}) {
    SCOPED_TRACE(type);
    const auto flags = with(common, {"--dtype", type});
    const auto losses = [&](int np, const std::string& out, const std::vector<std::string>& more) {
      return values_of(log_of(np, out, with(flags, more)), "main/loss");
    };
    const auto one = losses(1, "one", {}), two = losses(2, "two", {"--sync-bn"}),
               apart = losses(2, "apart", {});
    ASSERT_EQ(one.size(), 3u);
    expect_near(two, one, tolerance);
    EXPECT_GT(std::abs(apart[0] - one[0]), 5 * tolerance * one[0]);
  }
}

TEST_F(TrainCifar, SyncBnIsReportedAndMeasuresOneRanksMemory) {
  const std::vector<std::string> flags = {"--arch", "cnn10", "--sync-bn", "-b", "4"};
  const Finished plan = run(2, "result", with(flags, {"--dry-run"}));
  ASSERT_EQ(plan.exit_code, 0) << plan.all();
  EXPECT_EQ(count_of(plan.out, "Batch normalisation: by the statistics of all ranks\n"), 1)
      << plan.out;
  const Finished search = run(2, "result", with(flags, {"--find-batchsize", "--examples", "16"}));
  ASSERT_EQ(search.exit_code, 0) << search.all();
  EXPECT_EQ(count_of(search.out, "Largest batch: --batchsize 8 (all examples of a rank)\n"), 1)
      << search.out;
}

TEST_F(TrainCifar, RejectsBadFlagsAndDataInOneLine) {
  const auto expect_line = [&](const std::vector<std::string>& flags, const std::string& line,
                               ErrorKind kind) {
    const Finished job = run(2, "result", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), line), 1) << line << "\n--- in ---\n" << job.all();
  };
  expect_line({"--arch", "cnn11"}, "did you mean cnn10?", ErrorKind::usage);
  expect_line({"--arch", "lenet"}, "--arch: expected one of", ErrorKind::usage);
  expect_line({"--arch", "vgg_small", "--sync-bn"},
              "--sync-bn: the model has no batch normalisation; leave --sync-bn out",
              ErrorKind::usage);
  std::filesystem::resize_file(data + "/data_batch_3.bin", 3073);
  expect_line({}, "data_batch_3.bin: expected 24 pictures", ErrorKind::data);
}

}  // namespace
}  // namespace tasuki::testing
