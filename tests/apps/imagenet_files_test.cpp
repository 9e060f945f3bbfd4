// train_imagenet reads unusual images, and names those that it cannot read, with rank and host.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <future>

#include "core/error.hpp"
#include "core/file.hpp"
#include "dataset/images/exif.hpp"
#include "imagenet_job.hpp"
#include "saving/npz.hpp"
#include "tests/support/json.hpp"

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

TEST_F(ImageNetFiles, AcceptUnusualImages) {
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

TEST_F(ImageNetFiles, NameDamagedImages) {
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

// All at once, before anything is made; or they are left out by all ranks and by a resumed run,
// also if one of them has been replaced by then.
TEST_F(ImageNetFiles, ListOrSkipDamagedImages) {
  const std::string whole = read_file(image("train/down/0.jpg"));
  const std::vector<std::string> damaged = {"train/down/1.jpg", "train/across/4.jpg",
                                            "val/across/0.jpg"};
  for (const std::string& name : damaged) write_plain(image(name), whole.substr(0, 300));
  write_plain(image("train/down/2.jpg"), whole.substr(0, whole.size() - 2));
  for (const std::string flag : {"--check-data", "--dry-run"}) {
    const Finished job = run(2, "result", few_steps({"--epoch", "1", flag}));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
    EXPECT_EQ(count_of(job.err, "warning: 3 of 16 files cannot be read:\nwarning: "), 1)
        << job.all();
    for (const std::string& name : damaged)
      EXPECT_EQ(count_of(job.err, "\nwarning: " + image(name) + " (damage: "), 1) << job.all();
    EXPECT_EQ(count_of(job.err, "3 of 16 files cannot be read as JPEG or PNG images: "), 1)
        << job.all();
    EXPECT_EQ(count_of(job.err, "1 image file lacks the end, but no pixels, and is used: " +
                                    image("train/down/2.jpg")),
              1)
        << job.all();
    EXPECT_FALSE(fs::exists(folder / "result"));
  }
  const Finished plan = run(1, "result", few_steps({"--dry-run", "--check-data=false"}));
  EXPECT_EQ(plan.exit_code, 0) << plan.all();

  const std::vector<std::string> flags = few_steps({"--shards", "2", "--skip-damaged"});
  const Finished job = run(2, "result", with(flags, {"--epoch", "1"}));
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "2 of 12 train images cannot be read and are left out: "), 1)
      << job.all();
  EXPECT_EQ(count_of(job.err, "1 of 4 test images cannot be read and are left out: "), 1)
      << job.all();
  EXPECT_EQ(read_log("result").size(), 3U) << "10 images in batches of 4";
  const auto about = json_in(folder / "result/about.json");
  EXPECT_EQ(about.at("left_out"), (nlohmann::json{{"train", {"down/1.jpg", "across/4.jpg"}},
                                                  {"test", {"across/0.jpg"}}}));

  write_plain(image("train/down/1.jpg"), whole);
  const Finished resumed =
      run(1, "result", with(few_steps({"--shards", "2"}), {"--epoch", "2", "--resume", "auto"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_EQ(count_of(resumed.err, "2 of 12 train images are left out, as in the run"), 1)
      << resumed.all();
  EXPECT_EQ(count_of(resumed.all(), "had other data"), 0) << resumed.all();
  EXPECT_EQ(read_log("result").size(), 6U);
}

// Images that a camera has turned train like those that were turned already.
TEST_F(ImageNetFiles, ApplyExifOrientation) {
  const auto write_all = [&](const std::function<std::string(const Image&)>& file_of) {
    for (const char* const split : {"train", "val"})
      for (const int label : {0, 1})
        for (int i = 0; i < 6; ++i)
          write_plain(image(fmt::format("{}/{}/{}.jpg", split, label ? "across" : "down", i)),
                      file_of(make_image(70 + i, 90, [&](int c, int y, int x) {
                        return (label ? 8 * x : 3 * y + x) % 256 / (c + 1);
                      })));
  };
  const auto turned = [](const Image& stored) {
    Image shown{stored.width, stored.height, stored.pixels};
    turn<3>(stored.pixels.data(), stored.height, stored.width, orientation_of(6),
            shown.pixels.data());
    return shown;
  };
  write_all([&](const Image& each) { return png_file(turned(each)); });
  const std::vector<double> expected = losses(1, "expected", {"--epoch", "1"});
  write_all([](const Image& each) { return png_with_exif(png_file(each), 6); });
  const std::vector<double> shown = losses(1, "turned", {"--epoch", "1"});
  const std::vector<double> stored = losses(1, "stored", {"--epoch", "1", "--exif", "off"});
  ASSERT_EQ(expected.size(), 3U);
  ASSERT_EQ(shown.size(), 3U);
  ASSERT_EQ(stored.size(), 3U);
  // Pixels differ by the rounding of two passes in another order.
  EXPECT_NEAR(shown[0], expected[0], 1e-3 * expected[0]);
  EXPECT_GT(std::abs(stored[0] - expected[0]), 3e-3 * expected[0]);

  // A resumed run keeps its own; a run that does not say is one of a version that did not turn.
  const auto goes_on = [&](const std::string& from, const std::vector<std::string>& more) {
    const Finished job =
        run(1, "resumed", with(few_steps({"--epoch", "2", "--resume", from}), more));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const auto about = json_in(folder / "resumed/about.json");
    fs::remove_all(folder / "resumed");
    return std::pair(about.at("flags").at("exif").get<std::string>(), job.all());
  };
  const std::string line = "images are not rotated as their EXIF orientation says";
  const auto [own, said] = goes_on(folder / "stored/snapshot_iter_3", {});
  EXPECT_EQ(own, "off");
  EXPECT_EQ(count_of(said, line), 0) << said;
  const auto [given, said_of_given] = goes_on(folder / "stored/snapshot_iter_3", {"--exif", "on"});
  EXPECT_EQ(given, "on");
  EXPECT_EQ(count_of(said_of_given, "exif on instead of off"), 1) << said_of_given;

  // The rate stays as the run had it, whoever has set it.
  std::vector<NpzEntry> with_own_rate;
  for (const NpzFile file(folder / "stored/snapshot_iter_3");
       const std::string& name : file.names())
    with_own_rate.push_back({name, file.read(name)});
  const auto rate = std::ranges::find_if(with_own_rate, [](const NpzEntry& each) {
    return each.name == "updater/optimizer:main/hyperparameters/lr";
  });
  ASSERT_NE(rate, with_own_rate.end());
  std::get<Tensor>(rate->value).data<double>()[0] = 0.0078125;
  fs::create_directories(folder / "own-rate");
  write_npz(folder / "own-rate/snapshot_iter_3", with_own_rate);
  const auto [turned_again, said_of_rate] =
      goes_on(folder / "own-rate/snapshot_iter_3", {"--exif", "on"});
  EXPECT_EQ(turned_again, "on");
  EXPECT_EQ(count_of(said_of_rate, "differ from the snapshot's: exif on instead of off\n"), 1)
      << said_of_rate;

  const NpzFile snapshot(folder / "turned/snapshot_iter_3");
  std::vector<NpzEntry> entries;
  for (const std::string& name : snapshot.names())
    if (name != "extensions/Flags/exif") entries.push_back({name, snapshot.read(name)});
  EXPECT_EQ(entries.size() + 1, snapshot.names().size());
  fs::create_directories(folder / "older");
  write_npz(folder / "older/snapshot_iter_3", entries);
  const auto [older, said_of_older] = goes_on(folder / "older/snapshot_iter_3", {});
  EXPECT_EQ(older, "off");
  EXPECT_EQ(count_of(said_of_older, line), 1) << said_of_older;
}

TEST_F(ImageNetFiles, NameImagesRemovedDuringTraining) {
  const std::string name = "train/across/3.jpg";
  const Finished job =
      run_program(mpirun(2, program("result", few_steps({"--epoch", "1000"}))), 60, {}, [&](pid_t) {
        if (fs::exists(folder / "result/log")) fs::remove(image(name));
      });
  expect_named(job, name, ErrorKind::missing, "No such file");
  EXPECT_FALSE(read_log("result").empty());
}

TEST_F(ImageNetFiles, RejectMismatchedListsInOneLine) {
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
