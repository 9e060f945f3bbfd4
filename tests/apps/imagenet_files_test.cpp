// train_imagenet reads unusual images, and names those that it cannot read, with rank and host.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <future>

#include "imagenet_job.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;

class ImageNetFiles : public TrainImageNet {
 protected:
  std::string image(const std::string& name) const { return data + "/" + name; }
  // Of a job on two ranks that one of them ended because of an image.
  void expect_named(const Finished& job, const std::string& file, ErrorKind kind,
                    const std::string& problem) {
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    const std::string place = fmt::format(" on {}: ", host.data());
    EXPECT_EQ(count_of(job.err, "rank 0" + place) + count_of(job.err, "rank 1" + place), 1)
        << job.all();
    EXPECT_EQ(count_of(job.err, image(file)), 1) << job.all();
    EXPECT_THAT(job.err, ::testing::HasSubstr(problem));
  }
};

TEST_F(ImageNetFiles, UnusualImagesAreRead) {
  const auto grey_or_ink = [&](J_COLOR_SPACE space, std::size_t channels) {
    return jpeg_file(70, 80, std::vector<std::uint8_t>(70 * 80 * channels, 90), space);
  };
  const auto plain = [](std::int64_t height, std::int64_t width) {
    return make_image(height, width, [](int c, int, int) { return 50 * c; });
  };
  for (const char* const split : {"train/down/", "val/down/"}) {
    write_plain(image(split + std::string("grey.jpg")), grey_or_ink(JCS_GRAYSCALE, 1));
    write_plain(image(split + std::string("ink.jpg")), grey_or_ink(JCS_CMYK, 4));
    write_plain(image(split + std::string("one.jpg")), jpeg_file(plain(1, 1)));
    write_plain(image(split + std::string("one.png")), png_file(plain(1, 1)));
    write_plain(image(split + std::string("wide.jpg")), jpeg_file(plain(2, 300)));
    write_plain(image(split + std::string("with blank.PNG")), png_file(plain(300, 1)));
  }
  const auto log = log_of(2, "result", few_steps({"--epoch", "1", "--test-examples", "18"}));
  ASSERT_EQ(log.size(), 5u);  // 18 images
  EXPECT_TRUE(std::isfinite(log.back().at("validation/main/loss").get<double>()));
}

TEST_F(ImageNetFiles, DamagedImagesAreNamed) {
  const std::string whole = read_file(image("train/down/0.jpg"));
  // Neither is seen in the first bytes.
  std::string corrupt = whole;
  for (std::size_t at = whole.size() / 2; at < whole.size() - 2; ++at) corrupt[at] = '\xff';
  const std::map<std::string, std::string> damaged = {
      {"train/down/1.jpg", whole.substr(0, whole.size() / 2)}, {"val/across/0.jpg", corrupt}};
  for (const auto& [name, bytes] : damaged) {
    SCOPED_TRACE(name);
    write_plain(image(name), bytes);
    expect_named(run(2, "result", few_steps({"--epoch", "9"})), name, ErrorKind::data,
                 "expected a JPEG image, found damage");
    write_plain(image(name), whole);
  }
}

TEST_F(ImageNetFiles, AnImageThatIsRemovedDuringTrainingIsNamed) {
  const std::string name = "train/across/3.jpg";
  const Finished job =
      run_program(mpirun(2, program("result", few_steps({"--epoch", "1000"}))), 60, {}, [&](pid_t) {
        if (fs::exists(folder / "result/log")) fs::remove(image(name));
      });
  expect_named(job, name, ErrorKind::missing, "No such file");
  EXPECT_FALSE(read_log("result").empty());
}

TEST_F(ImageNetFiles, ListsThatDoNotFitAreOneLine) {
  write_plain(folder / "val.txt", lists["val"]);
  const auto refused = [&](const std::string& list, const std::string& root) {
    static int number = 0;
    const std::string file = folder / fmt::format("train{}.txt", ++number);
    write_plain(file, list);
    return std::async(std::launch::async, [this, file, root] {
      return run_program({TRAIN_IMAGENET, file, folder / "val.txt", "--root", root, "-a", "nin",
                          "--dry-run", "--threads", "1"});
    });
  };
  struct Case {
    std::future<Finished> job;
    std::string line;
    ErrorKind kind;
  };
  const std::string train = data + "/train";
  std::vector<Case> cases;
  const auto add = [&](const std::string& list, const std::string& line, ErrorKind kind) {
    cases.push_back({refused(list, train), line, kind});
  };
  add("down/0.jpg 0\nacross/0.jpg -1\n", ": line 2, label: expected an integer from 0",
      ErrorKind::data);
  add("down/0.jpg 99999999\n", ": line 1, label: expected an integer from 0", ErrorKind::data);
  add("down/0.jpg 0\nacross/0.jpg\n",
      ": line 2: expected the name of an image and its label, found 'across/0.jpg'",
      ErrorKind::data);
  add("down/0.jpg 0\n", "val.txt: line 7, label: expected an integer from 0 to 0, found '1'",
      ErrorKind::data);
  add(lists["train"] + "down/6.jpg 0\n", "down/6.jpg (No such file or directory)", ErrorKind::data);
  for (auto& [pending, line, kind] : cases) {
    const Finished job = pending.get();
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, line), 1) << line << "\n--- in ---\n" << job.all();
    EXPECT_EQ(std::ranges::count(job.err, '\n'), 1) << job.err;
  }
}

}  // namespace
}  // namespace tasuki::testing
