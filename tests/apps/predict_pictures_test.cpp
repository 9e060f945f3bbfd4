// predict on image files, by models of train_cifar and train_imagenet.
#include <fstream>

#include "core/json.hpp"
#include "predict_job.hpp"
#include "tests/support/image_files.hpp"
#include "tests/support/json.hpp"

namespace tasuki::testing {
namespace {

class PredictPictures : public TrainingJob {
 protected:
  PredictPictures() : TrainingJob({TRAIN_CIFAR, "--conv", "direct", "--dataset", "images"}) {
    for (const char* split : {"train", "val"})
      for (const int label : {0, 1})
        for (int i = 0; i < 6; ++i) write_picture(fs::path(data) / split, label, i);
  }
  static void write_picture(const fs::path& part, int label, int i) {
    const fs::path sub = part / (label ? "bright" : "dark");
    fs::create_directories(sub);
    const Image image = make_image(20 + i, 30, [&](int c, int y, int x) {
      return (label ? 10 * x % 256 : 10 * y % 256) / (c + 1);
    });
    std::ofstream(sub / fmt::format("{}.{}", i, i % 2 ? "png" : "jpg"), std::ios::binary)
        << (i % 2 ? png_file(image) : jpeg_file(image));
  }
};

// Network, size, standardisation, classes and their names come with the run.
TEST_F(PredictPictures, NamesClassesOfImageFolders) {
  const auto log = log_of(1, "result",
                          {"--image-size", "16", "--arch", "resnet20", "-b", "6", "--epoch", "2",
                           "--test-examples", "8"});
  ASSERT_EQ(log.size(), 2u);
  const std::string result = folder / "result";
  const auto rows = predicted(1, {result, "--conv", "direct"});
  ASSERT_EQ(rows.size(), 9u);
  const json summary = rows.back().at("summary");
  EXPECT_EQ(summary.at("class_names"), (json{"bright", "dark"}));
  EXPECT_EQ(summary.at("accuracy"), log.back().at("validation/main/accuracy"));
  const double loss = log.back().at("validation/main/loss");
  EXPECT_NEAR(summary.at("loss").get<double>(), loss, 1e-5 * loss);
  const auto labels = predicted(2, {result, data + "/val"});
  ASSERT_EQ(labels.size(), 13u);
  EXPECT_EQ(labels[0].at("file"), data + "/val/bright/0.jpg");
  EXPECT_EQ(labels[0].at("label_name"), "bright");
  EXPECT_EQ(labels[1].at("file"), data + "/val/dark/0.jpg");
  EXPECT_EQ(labels[1].at("label_name"), "dark");

  const auto alone = predicted(1, {result, data + "/val/dark", "--conv", "direct"});
  ASSERT_EQ(alone.size(), 7u);
  EXPECT_FALSE(alone[0].contains("label"));
  const auto single = predicted(1, {result, data + "/val/dark/5.png", "--conv", "direct"});
  ASSERT_EQ(single.size(), 2u);
  EXPECT_EQ(single[0].at("predictions")[0].at("class"), alone[5].at("predictions")[0].at("class"));
  const json as_trained = summary_of(1, {result, data, "--conv", "direct"}),
             plain = summary_of(1, {result, data, "--standardize", "off"});
  EXPECT_NE(as_trained.at("loss"), plain.at("loss"));

  fs::rename(data + "/val/dark", data + "/val/dim");
  expect_lines({{{result, data},
                 "dim: expected a folder named like one of the model's classes (bright, dark)",
                 ErrorKind::data}});
}

// Images that cannot be read are reported, and the others predicted; labels stay with their images.
TEST_F(PredictPictures, SkipsDamagedImages) {
  log_of(1, "result", {"--image-size", "16", "--arch", "resnet20", "-b", "6", "--epoch", "1"});
  const std::string result = folder / "result", dark = data + "/val/dark";
  std::ofstream(folder / "labels") << "bright\ndark\ndark\nbright\ndark\ndark\n";
  const auto whole = predicted(1, {result, dark, "--labels", folder / "labels"});
  ASSERT_EQ(whole.size(), 7U);
  fs::resize_file(dark + "/1.png", 60);
  std::ofstream(dark + "/3.png") << "<html>not found</html>";
  const auto rows = predicted(2, {result, dark, "--labels", folder / "labels"});
  ASSERT_EQ(rows.size(), 5U);
  for (const auto& [row, same] : {std::pair(0, 0), {1, 2}, {2, 4}, {3, 5}})
    for (const char* const key : {"file", "label", "label_name"})
      EXPECT_EQ(rows[static_cast<std::size_t>(row)].at(key),
                whole[static_cast<std::size_t>(same)].at(key));
  const json unreadable = rows.back().at("summary").at("unreadable");
  ASSERT_EQ(unreadable.size(), 2U);
  EXPECT_EQ(unreadable[0].at("file"), dark + "/1.png");
  EXPECT_THAT(unreadable[0].at("problem").get<std::string>(), HasSubstr("damage: "));
  EXPECT_EQ(unreadable[1], (json{{"file", dark + "/3.png"}, {"problem", "something else"}}));
  const Finished text = run_program(predict_words({result, dark, "--quiet"}));
  EXPECT_EQ(text.exit_code, 0) << text.all();
  EXPECT_THAT(text.out, HasSubstr("Left out: 2 image files that cannot be read: " + dark));
}

// Images are turned as in the training.
TEST_F(PredictPictures, AppliesExifLikeTheTraining) {
  for (const char* const name : {"/val/dark/1.png", "/val/bright/3.png", "/val/bright/5.png"}) {
    const std::string file = read_file(data + name);
    std::ofstream(data + name, std::ios::binary) << png_with_exif(file, 6);
  }
  const std::vector<std::string> flags = {"--image-size", "16", "--arch",  "resnet20",
                                          "-b",           "6",  "--epoch", "1"};
  const std::string result = folder / "result";
  for (const std::string exif : {"on", "off"}) {
    const auto log = log_of(1, "result", with(flags, {"--exif", exif}));
    ASSERT_EQ(log.size(), 1U);
    const double loss = log[0].at("validation/main/loss");
    const json own = summary_of(1, {result, "--conv", "direct"});
    EXPECT_NEAR(own.at("loss").get<double>(), loss, 1e-5 * loss) << exif;
    const json other =
        summary_of(1, {result, "--conv", "direct", "--exif", exif == "on" ? "off" : "on"});
    EXPECT_GT(std::abs(other.at("loss").get<double>() - loss), 1e-4 * loss) << exif;
  }
  // A version that did not know the flag.
  json about = json_in(result + "/about.json");
  about.at("flags").erase("exif");
  write_file(result + "/about.json", json_text(about));
  const Finished older = run_program(predict_words({result, "--quiet", "--format", "json"}));
  EXPECT_THAT(older.err, HasSubstr("images are not rotated as their EXIF orientation says"));
  EXPECT_EQ(lines_of(older.out).back().at("summary").at("loss"),
            summary_of(1, {result, "--exif", "off"}).at("loss"));
}

// Its images are cropped and scaled as for its evaluation.
TEST_F(PredictPictures, ReproducesTrainImagenetsResults) {
  const std::string result = folder / "imagenet";
  const Finished job =
      run_program({TRAIN_IMAGENET, data + "/train", data + "/val", "--arch", "resnet18",
                   "--image-size", "32", "-b", "6", "--epoch", "2", "--threads", "1", "--conv",
                   "direct", "--quiet", "--out", result});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const json log = json_in(result + "/log");
  const double loss = log.back().at("validation/main/loss");
  for (const auto& inputs : {std::vector<std::string>{}, {data + "/val"}}) {
    const json summary = summary_of(1, with({result}, with(inputs, {"--conv", "direct"})));
    EXPECT_EQ(summary.at("examples"), 12);
    EXPECT_EQ(summary.at("accuracy"), log.back().at("validation/main/accuracy"));
    EXPECT_NEAR(summary.at("loss").get<double>(), loss, 1e-5 * loss);
    EXPECT_EQ(summary.at("class_names"), (json{"bright", "dark"}));
  }
}

// The run's loss has parts of its auxiliary classifiers.
TEST_F(PredictPictures, ReproducesGoogLeNetsAuxiliaryLosses) {
  const std::string result = folder / "googlenet";
  const Finished job = run_program({TRAIN_IMAGENET,
                                    "--data",
                                    data,
                                    "--arch",
                                    "googlenetbn",
                                    "--image-size",
                                    "64",
                                    "-b",
                                    "4",
                                    "--max-iterations",
                                    "3",
                                    "--threads",
                                    "1",
                                    "--conv",
                                    "direct",
                                    "--quiet",
                                    "--test-examples",
                                    "4",
                                    "--out",
                                    result});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const json entry = json_in(result + "/log").back();
  const std::vector<std::string> flags = {result, "--conv", "direct", "--examples", "4"};
  const json summary = summary_of(2, flags);
  for (const char* const key : {"accuracy", "loss", "loss1", "loss2", "loss3"}) {
    const double expected = entry.at(fmt::format("validation/main/{}", key));
    EXPECT_NEAR(summary.at(key).get<double>(), expected, 1e-4 * expected) << key;
  }
  EXPECT_GT(summary.at("loss"), summary.at("loss3"));
  const Finished text = run_program(predict_words(with(flags, {"--quiet"})));
  EXPECT_THAT(text.out, HasSubstr(fmt::format(
                            "Mean loss: {:.4f} (classifiers: {:.4f}, {:.4f}, "
                            "main {:.4f})\n",
                            summary.at("loss").get<double>(), summary.at("loss1").get<double>(),
                            summary.at("loss2").get<double>(), summary.at("loss3").get<double>())));
}

}  // namespace
}  // namespace tasuki::testing
