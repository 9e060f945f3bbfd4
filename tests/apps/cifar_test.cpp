// train_cifar as users start it.

#include "pictures.hpp"
#include "tasuki/core/error.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainCifar : public TrainingJob {
 protected:
  TrainCifar() : TrainingJob({TRAIN_CIFAR, "--conv", "direct"}) { write_pictures(data, 120, 20); }
};

TEST_F(TrainCifar, DefaultsFollowTheModel) {
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

TEST_F(TrainCifar, ModelsWithAndWithoutNormalisationTakeAStep) {
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

TEST_F(TrainCifar, TakesCifar100) {
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

TEST_F(TrainCifar, BadFlagsAndDataAreOneLine) {
  const auto expect_line = [&](const std::vector<std::string>& flags, const std::string& line,
                               ErrorKind kind) {
    const Finished job = run(2, "result", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), line), 1) << line << "\n--- in ---\n" << job.all();
  };
  expect_line({"--arch", "cnn11"}, "did you mean cnn10?", ErrorKind::usage);
  expect_line({"--arch", "lenet"}, "--arch: expected one of", ErrorKind::usage);
  std::filesystem::resize_file(data + "/data_batch_3.bin", 3073);
  expect_line({}, "data_batch_3.bin: expected 24 pictures", ErrorKind::data);
}

}  // namespace
}  // namespace tasuki::testing
