// train_imagenet as users start it.
#include <future>

#include "core/error.hpp"
#include "imagenet_job.hpp"

namespace tasuki::testing {
namespace {

TEST_F(TrainImageNet, DoesNotDependOnRanksThreadsOrInterruptions) {
  // Short runs mostly wait for MPI, so they share the cores.
  auto two = std::async(std::launch::async, [this] {
    return losses(2, "two", {"--max-iterations", "5", "--loaderjob", "2"});
  });
  // In the middle of the second epoch.
  auto parts = std::async(std::launch::async, [this] {
    return losses(1, "parts", {"--max-iterations", "4", "--loader-threads", "0"});
  });
  const auto one = losses(1, "one", {"--max-iterations", "5"});
  ASSERT_EQ(one.size(), 5u);
  expect_near(two.get(), one, 1e-4);
  parts.wait();
  const auto resumed = losses(1, "parts", {"--max-iterations", "5", "--resume", folder / "parts"});
  EXPECT_EQ(resumed, one);
  // The order of a shard's images is the same on other ranks.
  losses(1, "parts", {"--max-iterations", "4"});
  expect_near(losses(2, "parts", {"--max-iterations", "5", "--resume", folder / "parts"}), one,
              1e-4);
}

TEST_F(TrainImageNet, ReportsGoogLeNetsAuxiliaryLosses) {
  const auto log = log_of(2, "result",
                          {"--arch", "googlenetbn", "--image-size", "64", "-b", "2", "--sync-bn",
                           "--max-iterations", "1", "--log-every", "1", "--test-examples", "2"});
  ASSERT_EQ(log.size(), 1u);
  const auto value = [&](const std::string& name) {
    return log[0].at("main/" + name).get<double>();
  };
  EXPECT_NEAR(value("loss"), value("loss3") + 0.3 * (value("loss1") + value("loss2")), 1e-5);
}

TEST_F(TrainImageNet, AcceptsChainerMNsFlags) {
  const Finished job = run_program({TRAIN_IMAGENET,
                                    "train.txt",
                                    "val.txt",
                                    "-a",
                                    "alex",
                                    "-B",
                                    "7",
                                    "-E",
                                    "3",
                                    "-j",
                                    "2",
                                    "--initmodel",
                                    "m.npz",
                                    "--val_batchsize",
                                    "9",
                                    "-m",
                                    "m.npy",
                                    "-R",
                                    "images",
                                    "--test",
                                    "-r",
                                    "auto",
                                    "-o",
                                    "out",
                                    "--communicator",
                                    "naive",
                                    "--print-config"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* const line :
       {"train = train.txt ", "val = val.txt ", "arch = alex ", "batchsize = 7 ", "epoch = 3 ",
        "loader-threads = 2 ", "init = m.npz ", "val-batchsize = 9 ", "mean = m.npy ",
        "root = images ", "test = true ", "resume = auto ", "out = out ", "communicator = naive "})
    EXPECT_EQ(count_of(job.out, std::string("\n") + line), 1) << line << job.out;
  const Finished help = run_program({TRAIN_IMAGENET, "--help", "all"});
  for (const char* const names : {" -B", " -E", " --initmodel", " --loaderjob,", " -j"})
    EXPECT_EQ(count_of(help.out, names), 1) << names << help.out;
}

TEST_F(TrainImageNet, AcceptsChainersImageLists) {
  // Names may have blanks, lines end as in other systems.
  std::filesystem::rename(data + "/train/down/0.jpg", data + "/train/down/with blanks.jpg");
  for (const char* const split : {"train", "val"})
    write_plain(folder / fmt::format("{}.txt", split),
                "down/with blanks.jpg 0\r\n" + lists[split].substr(sizeof("down/0.jpg 0")));
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
  EXPECT_EQ(count_of(missing.all(), "No such file or directory"), 24 + 1) << missing.all();
}

TEST_F(TrainImageNet, RejectsBadFlagsAndImagesInOneLine) {
  struct Case {
    std::vector<std::string> flags;
    std::string line;
    ErrorKind kind;
  };
  const auto expect_lines = [&](const std::vector<Case>& cases) {
    std::vector<std::future<Finished>> jobs;
    jobs.reserve(cases.size());
    for (const Case& one : cases)
      jobs.push_back(std::async(std::launch::async,
                                [this, &one] { return run(2, "result", few_steps(one.flags)); }));
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Finished job = jobs[i].get();
      EXPECT_EQ(job.exit_code, static_cast<int>(cases[i].kind)) << job.all();
      EXPECT_EQ(count_of(job.all(), cases[i].line), 1) << cases[i].line << "\n--- in ---\n"
                                                       << job.all();
    }
  };
  const auto expect_line = [&](const std::vector<std::string>& flags, const std::string& line,
                               ErrorKind kind) {
    expect_lines({{flags, line, kind}});
  };
  expect_lines({{{"--arch", "resnet51"}, "did you mean resnet50?", ErrorKind::usage},
                {{"--augment"}, "unknown flag --augment", ErrorKind::usage},
                {{"--image-size", "40"},
                 "nin: expected images of at least 63 x 63 pixels",
                 ErrorKind::config},
                {{"--resize", "60"},
                 "--resize: expected at least --image-size 63, found 60",
                 ErrorKind::usage},
                {{"--train", data}, "--train and --val: give both or none", ErrorKind::usage}});
  write_plain(data + "/val/down/2.jpg", "just text");
  expect_line({"--test-examples", "12"}, "val/down/2.jpg (something else)", ErrorKind::data);
  std::filesystem::rename(data + "/val/down", data + "/val/up");
  expect_line({}, "expected subfolders for the classes of the train folder", ErrorKind::data);
  std::filesystem::remove_all(data + "/train");
  std::filesystem::create_directories(data + "/train");
  expect_line({}, "expected a subfolder with images for each class, found none",
              ErrorKind::missing);
}

}  // namespace
}  // namespace tasuki::testing
