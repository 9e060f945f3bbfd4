// train_cifar_channel_parallel learns what train_cifar does, its channels divided among ranks.
#include <filesystem>

#include "core/error.hpp"
#include "tests/support/pictures.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using Flags = std::vector<std::string>;

class ChannelParallel : public TrainingJob {
 protected:
  ChannelParallel() : TrainingJob({CHANNEL_PARALLEL, "--conv", "direct"}) {
    write_pictures(data, 20, 6);
  }
};

TEST_F(ChannelParallel, UsesChainerMNsDefaults) {
  const Finished job = run(1, "result", {"--print-config"});
  for (const char* const line :
       {"\nbatchsize = 64 ", "\nepoch = 20 ", "\nlr = 0.05 ", "\noptimizer = momentum_sgd ",
        "\ndataset = cifar10 ", "\nmodel-ranks = 0 "})
    EXPECT_EQ(count_of(job.out, line), 1) << line << job.out;
}

TEST_F(ChannelParallel, AcceptsChainerMNsFlags) {
  for (const auto& [every, text] : {std::pair("2", "2"), {"-1", "end"}}) {
    const Finished job =
        run(1, "result", {"--learnrate", "0.1", "-f", every, "-d", "cifar100", "--print-config"});
    for (const std::string& line :
         {std::string("lr = 0.1 "), fmt::format("snapshot-every = {} ", text),
          std::string("dataset = cifar100 ")})
      EXPECT_EQ(count_of(job.out, "\n" + line), 1) << line << job.out;
  }
}

// At larger rates, differences in rounding grow from step to step: those between two algorithms for
// convolutions by more than those between one process and two.
TEST_F(ChannelParallel, TrainsLikeOneProcess) {
  const Flags flags = {"--epoch", "1", "--log-every", "1", "--lr", "0.0001", "-b", "10"};
  Flags whole = program("one", with(flags, {"--arch", "vgg16_bn", "--augment=false"}));
  whole[0] = TRAIN_CIFAR;
  const Finished job = run_program(whole);
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const auto one = read_log("one");
  ASSERT_EQ(values_of(one, "main/loss").size(), 2U);
  for (const int np : {2, 4}) {
    SCOPED_TRACE(np);
    const std::string out = fmt::format("np{}", np);
    const auto log = log_of(np, out, flags);
    expect_near(values_of(log, "main/loss"), values_of(one, "main/loss"), 1e-4);
    expect_near(values_of(log, "validation/main/loss"), values_of(one, "validation/main/loss"),
                1e-4);
    for (int part = 0; part < np; ++part)
      EXPECT_TRUE(
          std::filesystem::exists(folder / fmt::format("{}/snapshot_iter_2.{}", out, part)));
  }
}

TEST_F(ChannelParallel, RejectsUnsuitableNumbersOfRanks) {
  const Finished job = run(3, "refused", {"--model-ranks", "2"});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
  EXPECT_EQ(count_of(job.err, "expected a multiple of 2 ranks, found 3"), 1) << job.all();
}

TEST_F(ChannelParallel, NamesMissingFile) {
  std::filesystem::remove(data + "/data_batch_3.bin");
  const Finished job = run(2, "refused", {});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::missing)) << job.all();
  EXPECT_EQ(count_of(job.err, "data_batch_3.bin: expected a data file, found no file"), 1)
      << job.all();
}

}  // namespace
}  // namespace tasuki::testing
