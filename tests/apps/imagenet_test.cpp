// train_imagenet as users start it, on a few small images.

#include <map>

#include "image_files.hpp"
#include "tasuki/core/error.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

void write_plain(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class TrainImageNet : public TrainingJob {
 protected:
  TrainImageNet() : TrainingJob({TRAIN_IMAGENET, "--conv", "direct"}) {
    for (const char* split : {"train", "val"})
      for (const int label : {0, 1}) {
        const auto sub = std::filesystem::path(data) / split / (label ? "across" : "down");
        std::filesystem::create_directories(sub);
        for (int i = 0; i < 6; ++i) {
          const Image image = make_image(70 + i, 90, [&](int c, int y, int x) {
            return (label ? 8 * x : 8 * y) % 256 / (c + 1);
          });
          const std::string name = fmt::format("{}/{}.jpg", label ? "across" : "down", i);
          write_plain(sub / fmt::format("{}.jpg", i), jpeg_file(image));
          lists[split] += fmt::format("{} {}\n", name, label);
        }
      }
  }

  // Two shards make the same global batches on one rank and on two.
  std::vector<std::string> few_steps(std::vector<std::string> more) {
    return with({"--arch", "nin", "--image-size", "63", "--global-batch", "4", "--shards", "2",
                 "--log-every", "1", "--test-examples", "4"},
                more);
  }
  std::vector<double> losses(int np, const std::string& out, const std::vector<std::string>& more) {
    return values_of(log_of(np, out, few_steps(more)), "main/loss");
  }

  std::map<std::string, std::string> lists;  // of the images, by split
};

TEST_F(TrainImageNet, StepsDoNotDependOnRanksThreadsOrInterruptions) {
  const auto one = losses(1, "one", {"--max-iterations", "5"});
  ASSERT_EQ(one.size(), 5u);
  expect_near(losses(2, "two", {"--max-iterations", "5", "--loaderjob", "2"}), one, 1e-4);
  // In the middle of the second epoch.
  losses(1, "parts", {"--max-iterations", "4", "--loader-threads", "0"});
  const auto resumed = losses(1, "parts", {"--max-iterations", "5", "--resume", folder / "parts"});
  EXPECT_EQ(resumed, one);
  // The order of a shard's images is the same on other ranks.
  losses(1, "parts", {"--max-iterations", "4"});
  expect_near(losses(2, "parts", {"--max-iterations", "5", "--resume", folder / "parts"}), one,
              1e-4);
}

TEST_F(TrainImageNet, GoogLeNetReportsTheLossesOfItsClassifiers) {
  const auto log = log_of(2, "result",
                          {"--arch", "googlenetbn", "--image-size", "64", "-b", "2", "--sync-bn",
                           "--max-iterations", "1", "--log-every", "1", "--test-examples", "2"});
  ASSERT_EQ(log.size(), 1u);
  const auto value = [&](const std::string& name) {
    return log[0].at("main/" + name).get<double>();
  };
  EXPECT_NEAR(value("loss"), value("loss3") + 0.3 * (value("loss1") + value("loss2")), 1e-5);
}

TEST_F(TrainImageNet, TakesListsAsChainerDoes) {
  write_plain(folder / "train.txt", lists["train"]);
  write_plain(folder / "val.txt", lists["val"]);
  const std::vector<std::string> words = {TRAIN_IMAGENET, folder / "train.txt", folder / "val.txt",
                                          "--root"};
  const auto plan = [&](const std::string& root) {
    return run_program(
        with(words, {root, "-a", "nin", "-b", "1", "--dry-run", "-m", folder / "mean.npy"}));
  };
  // numpy.save of 3 x 256 x 256 zeros.
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 256, 256), }";
  header.resize(117, ' ');
  write_plain(folder / "mean.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n' +
                                       std::string(3 * 256 * 256 * sizeof(float), '\0'));
  const Finished found = plan(data + "/train");
  ASSERT_EQ(found.exit_code, 0) << found.all();
  EXPECT_NE(found.out.find("Example: 3x227x227, 2 classes"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("train.txt (12 examples, 12 to evaluate on)"), std::string::npos)
      << found.out;
  const Finished missing = plan(data);
  EXPECT_EQ(missing.exit_code, static_cast<int>(ErrorKind::data)) << missing.all();
  EXPECT_EQ(count_of(missing.all(), "No such file or directory"), 3) << missing.all();
}

TEST_F(TrainImageNet, BadFlagsAndImagesAreOneLine) {
  const auto expect_line = [&](const std::vector<std::string>& flags, const std::string& line,
                               ErrorKind kind) {
    const Finished job = run(2, "result", few_steps(flags));
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), line), 1) << line << "\n--- in ---\n" << job.all();
  };
  expect_line({"--arch", "resnet51"}, "did you mean resnet50?", ErrorKind::usage);
  expect_line({"--augment"}, "unknown flag --augment", ErrorKind::usage);
  expect_line({"--image-size", "40"}, "nin: expected images of at least 63 x 63 pixels",
              ErrorKind::config);
  expect_line({"--resize", "60"}, "--resize: expected at least --image-size 63, found 60",
              ErrorKind::usage);
  expect_line({"--train", data}, "--train and --val: give both or none", ErrorKind::usage);
  write_plain(data + "/val/down/2.jpg", "just text");
  expect_line({"--test-examples", "12"}, "val/down/2.jpg (something else)", ErrorKind::data);
  std::filesystem::rename(data + "/val/down", data + "/val/up");
  expect_line({}, "expected a subfolder for each class of the train folder", ErrorKind::data);
  std::filesystem::remove_all(data + "/train");
  std::filesystem::create_directories(data + "/train");
  expect_line({}, "expected a subfolder with images for each class, found none",
              ErrorKind::missing);
}

}  // namespace
}  // namespace tasuki::testing
