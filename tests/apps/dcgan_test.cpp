// train_dcgan as users start it.

#include <filesystem>

#include "digits.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/dataset/files/idx.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainDcgan : public TrainingJob {
 protected:
  TrainDcgan()
      : TrainingJob({TRAIN_DCGAN, "--dataset", "mnist", "--channels", "8", "--conv", "direct",
                     "--global-batch", "16", "--shards", "2", "--log-every", "1"}) {
    write_digits(data, 64, 16);
  }
};

TEST_F(TrainDcgan, DefaultsAreChainerMns) {
  const Finished job = run_program({TRAIN_DCGAN, "--print-config"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* line :
       {"\nbatchsize = 50 ", "\nepoch = 1000 ", "\nlr = 0.0002 ", "\nweight-decay = 0.0001 ",
        "\nn-hidden = 100 ", "\nsnapshot-interval = 1000 ", "\ndisplay-interval = 100 "})
    EXPECT_EQ(count_of(job.out, line), 1) << line << job.out;
}

// With the statistics of the global batch: random numbers are functions of the example.
TEST_F(TrainDcgan, LossesAndSamplesAreTheSameForAnyNumberOfRanks) {
  const std::vector<std::string> flags = {"--epoch", "2", "--sync-bn"};
  const auto one = log_of(1, "np1", flags);
  const auto two = log_of(2, "np2", flags);
  ASSERT_EQ(one.size(), 8U);
  for (const char* key : {"main/dis/loss", "main/gen/loss", "validation/main/dis/loss"})
    expect_near(values_of(two, key), values_of(one, key), 1e-4);
  const auto generated = values_of(one, "main/gen/loss");
  EXPECT_GT(std::abs(generated.back() - generated.front()), 0.01) << "too little happened";
}

TEST_F(TrainDcgan, AResumedRunIsTheUninterruptedOne) {
  const std::vector<std::string> flags = {"--epoch", "2", "--samples", "12", "--snapshot_interval",
                                          "4"};
  log_of(2, "whole", flags);
  log_of(2, "cut", with(flags, {"--max-iterations", "5"}));
  log_of(2, "cut", with(flags, {"--resume", folder / "cut"}));
  const auto whole = read_log("whole"), resumed = read_log("cut");
  ASSERT_EQ(whole.size(), 8U);
  for (const char* key : {"main/dis/loss", "main/gen/loss"})
    EXPECT_EQ(values_of(resumed, key), values_of(whole, key)) << key;
  std::string pictures[2], samples[2];
  for (const int i : {0, 1}) {
    const std::filesystem::path out = folder / (i == 0 ? "whole" : "cut");
    pictures[i] = read_file(out / "preview" / "image00000008.png");
    samples[i] = read_file(out / "samples-idx3-ubyte");
  }
  // Weights that another run begins with.
  const auto next =
      log_of(1, "next",
             {"--epoch", "1", "--max-iterations", "1", "--gen_model",
              folder / "whole/gen_iter_8.npz", "--dis_model", folder / "whole/dis_iter_8.npz"});
  const auto first = log_of(1, "first", {"--epoch", "1", "--max-iterations", "1"});
  EXPECT_NE(values_of(next, "main/gen/loss"), values_of(first, "main/gen/loss"));
  EXPECT_EQ(pictures[0], pictures[1]);
  EXPECT_EQ(samples[0], samples[1]);
  EXPECT_EQ(open_idx_images(folder / "cut/samples-idx3-ubyte")->header().count, 12);
}

TEST_F(TrainDcgan, BadInputIsOneLine) {
  std::filesystem::create_directories(data + "/train");
  std::filesystem::create_directories(data + "/test");
  const auto expect_line = [&](int np, const std::vector<std::string>& flags, int exit_code,
                               const std::string& words) {
    const Finished job = run(np, "bad", flags);
    EXPECT_EQ(job.exit_code, exit_code) << job.all();
    EXPECT_EQ(count_of(job.all(), words), 1) << job.all();
  };
  expect_line(2, {"--dataset", "images"}, static_cast<int>(ErrorKind::missing),
              "expected a subfolder with images for each class");
  expect_line(1, {"--channels", "9"}, static_cast<int>(ErrorKind::usage),
              "need a number of channels that 2 divides, not 9");
  expect_line(1, {"--gen_model", folder / "none.npz"}, static_cast<int>(ErrorKind::missing),
              "none.npz: no such file");
  expect_line(1, {"--n_hidden", "0"}, static_cast<int>(ErrorKind::usage), "--n-hidden: expected");
}

}  // namespace
}  // namespace tasuki::testing
