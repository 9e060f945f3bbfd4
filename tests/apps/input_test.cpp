// Augmented input, folders of images, step times, the monitor, and batches that fit into memory.

#include <fstream>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/image_files.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/skip.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainingInput : public TrainingJob {
 protected:
  TrainingInput() : TrainingJob({TRAIN_CIFAR, "--conv", "direct"}) {
    write_pictures(data, 1000, 20);
  }
};

// vgg_small: no batch normalisation, whose statistics are each rank's own.
TEST_F(TrainingInput, AugmentationDoesNotDependOnRanksOrThreads) {
  const std::vector<std::string> flags = {"--arch",           "vgg_small", "--global-batch", "4",
                                          "--shards",         "2",         "--examples",     "40",
                                          "--max-iterations", "2",         "--log-every",    "1"};
  const auto losses = [&](int np, const std::string& out, const std::vector<std::string>& more) {
    return values_of(log_of(np, out, with(flags, more)), "main/loss");
  };
  const auto one = losses(1, "one", {});
  ASSERT_EQ(one.size(), 2u);
  expect_near(losses(2, "two", {"--loader-threads", "2"}), one, 1e-3);
  expect_near(losses(1, "alone", {"--loader-threads", "0"}), one, 1e-6);
  const auto plain = losses(1, "plain", {"--augment=false"});
  EXPECT_NE(plain, one);
}

TEST_F(TrainingInput, ShowsTimesPerRankAndMonitorsDevices) {
  const Finished job = run(2, "result",
                           {"--arch", "resnet20", "-b", "10", "--examples", "60", "--epoch", "2",
                            "--test-examples", "10", "--monitor", "0.05"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "rank    input       forward"), 1) << job.out;
  const auto log = read_log("result");
  ASSERT_EQ(log.size(), 2u);
  for (const std::string part : {"input", "compute", "communication"})
    EXPECT_GE(log[1].at("time/" + part + "/max"), log[1].at("time/" + part + "/min"));
  for (const int rank : {0, 1}) {
    std::ifstream file(folder / fmt::format("result/monitor.{}.csv", rank));
    std::string header, line;
    EXPECT_TRUE(std::getline(file, header) && std::getline(file, line)) << "rank " << rank;
  }
}

TEST_F(TrainingInput, TrainsOnAFolderOfImages) {
  std::filesystem::remove_all(data);
  for (const char* split : {"train", "val"}) {
    for (const int label : {0, 1}) {
      const auto sub = std::filesystem::path(data) / split / (label ? "bright" : "dark");
      std::filesystem::create_directories(sub);
      for (int i = 0; i < 12; ++i) {
        const Image image = make_image(20 + i, 30, [&](int c, int y, int x) {
          return (label ? 10 * x % 256 : 10 * y % 256) / (c + 1);
        });
        std::ofstream(sub / fmt::format("{}.{}", i, i % 2 ? "png" : "jpg"), std::ios::binary)
            << (i % 2 ? png_file(image) : jpeg_file(image));
      }
    }
  }
  const std::vector<std::string> flags = {"--dataset", "images",   "--image-size", "16",
                                          "--arch",    "resnet20", "-b",           "6"};
  const auto log = log_of(2, "result", with(flags, {"--epoch", "2"}));
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[1].at("iteration"), 4);

  // Files travel and are held as they are.
  std::size_t stored = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data))
    if (entry.is_regular_file()) stored += entry.file_size() + 12;
  const Finished plan = run(1, "none", with(flags, {"--dry-run"}));
  EXPECT_EQ(count_of(plan.out, fmt::format(" {:.1f} MB data", static_cast<double>(stored) / 1e6)),
            1)
      << stored << " bytes\n"
      << plan.all();

  // Evaluation reads ahead in threads as training does.
  for (const std::string name : {"val/bright/5.png", "train/dark/3.png"}) {
    std::filesystem::resize_file(data + "/" + name, 60);
    const Finished job = run(2, "broken", with(flags, {"--epoch", "1"}));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
    EXPECT_EQ(count_of(job.all(), name + ": expected a PNG image, found damage"), 1) << job.all();
  }

  // Files that are not images are found before anything is made, in both splits, also by a dry run.
  for (const std::string name : {"val/dark/4.jpg", "train/bright/2.jpg"}) {
    std::ofstream(data + "/" + name) << "<html>not found</html>";
    for (const std::string what : {"--augment", "--dry-run"}) {
      const Finished job = run(2, "junk", with(flags, {"--epoch", "1", what}));
      EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
      EXPECT_GE(count_of(job.all(), name + " (something else)"), 1) << job.all();
      EXPECT_FALSE(std::filesystem::exists(folder / "junk"));
    }
  }
}

// All examples are read before anything is made, and a bad one is named by its number.
TEST_F(TrainingInput, ChecksDataBeforeTraining) {
  const std::vector<std::string> flags = {"--arch", "resnet20", "-b", "10"};
  const std::string file = data + "/data_batch_3.bin";
  std::string bytes = read_file(file);
  bytes[4 * 3073] = 12;
  std::ofstream(file, std::ios::binary) << bytes;
  for (const std::string flag : {"--dry-run", "--check-data"}) {
    const Finished job = run(1, "result", with(flags, {flag}));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
    EXPECT_EQ(count_of(job.err,
                       file + ": expected labels from 0 to 9, found 12 at example 4 of the file, "
                              "404 of the data set"),
              1)
        << job.all();
    EXPECT_FALSE(std::filesystem::exists(folder / "result"));
  }
  const Finished plan = run(1, "result", with(flags, {"--dry-run", "--check-data=false"}));
  EXPECT_EQ(plan.exit_code, 0) << plan.all();
}

// Limits the address space of each rank, for tests of running out of memory.
std::vector<std::string> limited(const std::vector<std::string>& program) {
  return with({"prlimit", "--as=1000000000"}, program);
}

TEST_F(TrainingInput, FindsLargestBatchThatFits) {
  if (has_address_sanitizer) GTEST_SKIP() << "AddressSanitizer needs terabytes of address space";
  const std::vector<std::string> flags = {"--arch", "resnet20"};
  const Finished search =
      run_program(mpirun(2, limited(program("none", with(flags, {"--find-batchsize"})))));
  ASSERT_EQ(search.exit_code, 0) << search.all();
  const std::string before = "Largest batch: --batchsize ";
  const auto at = search.out.find(before);
  ASSERT_NE(at, std::string::npos) << search.all();
  const int found = std::stoi(search.out.substr(at + before.size()));
  EXPECT_GT(found, 150) << "the limit is each rank's own: " << search.out;
  EXPECT_LT(found, 500) << "the limit did not count: " << search.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "none")) << "nothing is trained";

  const auto train = [&](int batch) {
    return run_program(mpirun(
        2, limited(program("result",
                           with(flags, {"-b", std::to_string(batch), "--max-iterations", "1"})))));
  };
  const Finished fits = train(found);
  EXPECT_EQ(fits.exit_code, 0) << fits.all();

  const Finished too_much = train(std::min(3 * found, 500));
  EXPECT_EQ(too_much.exit_code, static_cast<int>(ErrorKind::unavailable)) << too_much.all();
  EXPECT_NE(too_much.all().find("out of memory"), std::string::npos) << too_much.all();
  EXPECT_NE(too_much.all().find("; trying whether a step of "), std::string::npos)
      << too_much.all();
  EXPECT_NE(too_much.all().find("the largest batch that fits is --batchsize "), std::string::npos)
      << too_much.all();
}

}  // namespace
}  // namespace tasuki::testing
