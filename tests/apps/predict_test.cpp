// predict as users start it: its answers are those of the runs that it is about.
#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <numeric>
#include <sstream>

#include "image_files.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/dataset/files/idx.hpp"
#include "tasuki/dataset/in_memory.hpp"
#include "tasuki/training/snapshots/npz.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<std::string> predict_words(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {PREDICT};
  words.insert(words.end(), flags.begin(), flags.end());
  return with(words, {"--threads", "1"});
}

// What a call that must succeed prints, as JSON: rows, then the summary.
std::vector<json> predicted(int np, const std::vector<std::string>& flags) {
  const std::vector<std::string> words = predict_words(with(flags, {"--format", "json"}));
  const Finished job = run_program(np == 1 ? words : mpirun(np, words));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  return job.exit_code == 0 ? lines_of(job.out) : std::vector<json>{};
}

json summary_of(int np, const std::vector<std::string>& flags) {
  const auto lines = predicted(np, with(flags, {"--quiet"}));
  EXPECT_EQ(lines.size(), 1u);
  return lines.empty() ? json() : lines.back().at("summary");
}

struct Refusal {
  std::vector<std::string> flags;
  std::string line;  // a part of it
  ErrorKind kind;
};

// Several at a time, because most of a short run is waiting for MPI.
void expect_lines(const std::vector<Refusal>& cases) {
  constexpr std::size_t at_once = 8;
  for (std::size_t begin = 0; begin < cases.size(); begin += at_once) {
    std::vector<std::future<Finished>> jobs;
    for (std::size_t i = begin; i < std::min(begin + at_once, cases.size()); ++i)
      jobs.push_back(std::async(std::launch::async, [&flags = cases[i].flags] {
        return run_program(predict_words(flags));
      }));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto& [flags, line, kind] = cases[begin + i];
      const Finished job = jobs[i].get();
      EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
      EXPECT_EQ(count_of(job.err, line), 1) << line << "\n--- in ---\n" << job.all();
      EXPECT_EQ(std::ranges::count(job.err, '\n'), 1) << job.err;
      EXPECT_EQ(job.out, "");
    }
  }
}

class PredictDigits : public TrainMnist {
 protected:
  void train() { log = log_of(1, "result", {"--epoch", "2"}); }
  std::string result() const { return folder / "result"; }
  std::string images() const { return data + "/t10k-images-idx3-ubyte"; }
  std::string labels() const { return data + "/t10k-labels-idx1-ubyte"; }
  double accuracy() const { return log.back().at("validation/main/accuracy"); }
  double loss() const { return log.back().at("validation/main/loss"); }
  // The weights alone, as Chainer's save_npz writes a classifier; with the last bias's values set
  // to `bias`, if given.
  std::string write_model_file(const std::string& name = "model.npz",
                               std::optional<float> bias = {}) {
    const NpzFile snapshot(folder / "result/snapshot_iter_10");
    const std::string prefix = "updater/model:main/";
    std::vector<NpzEntry> entries;
    for (const std::string& name : snapshot.names())
      if (name.starts_with(prefix))
        entries.push_back({name.substr(prefix.size()), snapshot.read(name)});
    fs::create_directories(folder / "model");
    if (bias) std::get<Tensor>(entries.back().value).fill(*bias);
    write_npz(folder / ("model/" + name), entries);
    return folder / ("model/" + name);
  }

  json log;
};

TEST_F(PredictDigits, AccuracyAndLossAreThoseOfTheRun) {
  train();
  const auto rows = predicted(1, {result(), "--top", "10"});
  ASSERT_EQ(rows.size(), test_examples + 1u);
  const json summary = rows.back().at("summary");
  EXPECT_EQ(summary.at("accuracy").get<double>(), accuracy());
  EXPECT_GT(accuracy(), 0.2);
  EXPECT_NEAR(summary.at("loss").get<double>(), loss(), 1e-5 * loss());
  EXPECT_EQ(summary.at("top_accuracy"), 1);

  int correct = 0;
  std::vector<std::vector<int>> confusion(10, std::vector<int>(10));
  for (int i = 0; i < test_examples; ++i) {
    const json& row = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(row.at("example"), i);
    const json& found = row.at("predictions");
    double sum = 0, previous = 1;
    for (const json& each : found) {
      const double probability = each.at("probability");
      EXPECT_LE(probability, previous);
      sum += previous = probability;
    }
    ASSERT_NEAR(sum, 1, 1e-12);
    const int label = row.at("label"), first = found[0].at("class");
    correct += label == first;
    ++confusion[static_cast<std::size_t>(label)][static_cast<std::size_t>(first)];
    for (const json& each : found) {
      if (each.at("class") != label) continue;
      EXPECT_NEAR(-std::log(each.at("probability").get<double>()), row.at("loss"), 1e-9);
    }
  }
  EXPECT_EQ(summary.at("correct"), correct);
  EXPECT_EQ(summary.at("confusion"), json(confusion));

  // Ranks have their parts in order.
  for (const int np : {2, 3}) {
    const auto parts = predicted(np, {result(), "--top", "1", "--batchsize", "7"});
    ASSERT_EQ(parts.size(), rows.size());
    EXPECT_EQ(parts.back().at("summary").at("correct"), correct);
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      EXPECT_EQ(parts[i].at("label"), rows[i].at("label"));
      EXPECT_NEAR(parts[i].at("loss").get<double>(), rows[i].at("loss"), 1e-4);
    }
  }
}

TEST_F(PredictDigits, ImagesComeInFilesOfSeveralForms) {
  train();
  const auto expected = predicted(1, {result(), data, "--examples", "4"});
  ASSERT_EQ(expected.size(), 5u);
  std::ofstream names(folder / "names.txt");
  for (int i = 0; i < 10; ++i) names << "digit " << i << '\n';
  names.close();

  // IDX without labels, and with them.
  const auto plain = predicted(1, {result(), images(), "--examples", "4"});
  ASSERT_EQ(plain.size(), 5u);
  EXPECT_FALSE(plain[0].contains("label"));
  EXPECT_FALSE(plain[4].at("summary").contains("accuracy"));
  EXPECT_EQ(plain[3].at("predictions"), expected[3].at("predictions"));
  EXPECT_EQ(summary_of(1, {result(), images(), "--labels", labels()}).at("accuracy"), accuracy());

  // Labels as text, by number or name; images in files.
  const auto dataset = read_dataset(*open_idx(images(), labels()));
  std::ofstream text(folder / "labels.txt");
  std::vector<std::string> files;
  for (int i = 0; i < 4; ++i) {
    const Batch batch = read_batch(*dataset, std::vector<std::int64_t>{i});
    const float* const pixels = batch["x"].data<float>();
    text << (i % 2 ? "" : "digit ") << batch["t"].item() << '\n';
    files.push_back(folder / fmt::format("{}.png", i));
    std::ofstream(files.back(), std::ios::binary)
        << png_file(make_image(28, 28, [&](int, int y, int x) {
             return static_cast<int>(std::lround(255 * pixels[28 * y + x]));
           }));
  }
  text.close();
  const auto from_files =
      predicted(2, with({result()}, with(files, {"--labels", folder / "labels.txt",
                                                 "--classes-file", folder / "names.txt"})));
  ASSERT_EQ(from_files.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(from_files[i].at("file"), files[i]);
    EXPECT_EQ(from_files[i].at("label"), expected[i].at("label"));
    const json& found = from_files[i].at("predictions")[0];
    EXPECT_EQ(found.at("class"), expected[i].at("predictions")[0].at("class"));
    EXPECT_EQ(found.at("name"), fmt::format("digit {}", found.at("class").get<int>()));
    EXPECT_NEAR(found.at("probability").get<double>(),
                expected[i].at("predictions")[0].at("probability"), 1e-5);
  }
}

TEST_F(PredictDigits, TablesAndCsvSayTheSame) {
  train();
  const auto run = [&](const std::vector<std::string>& flags) {
    Finished job = run_program(predict_words(with({result(), "--top", "2"}, flags)));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return job;
  };
  const auto rows = predicted(1, {result(), "--examples", "3"});
  ASSERT_EQ(rows.size(), 4u);
  const json &label = rows[2].at("label"), first = rows[2].at("predictions")[0],
             second = rows[2].at("predictions")[1];
  const Finished table = run({"--examples", "3"});
  EXPECT_THAT(table.out, HasSubstr("\nExamples: 3\nAccuracy: "));
  const std::string row =
      fmt::format("\n2        {}      {}           {:.4f}       {} {:.4f}\n", label.dump(),
                  first.at("class").dump(), first.at("probability").get<double>(),
                  second.at("class").dump(), second.at("probability").get<double>());
  EXPECT_THAT(table.out, HasSubstr(row));
  const Finished csv = run({"--examples", "3", "--format", "csv"});
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 4);
  EXPECT_THAT(csv.out,
              HasSubstr(fmt::format("\n2,{},{},", label.dump(), first.at("class").dump())));
  EXPECT_THAT(csv.err, HasSubstr("Examples: 3\n"));
  const Finished file =
      run({"--out", folder / "new/rows.csv", "--format", "csv", "--examples", "3"});
  EXPECT_EQ(read_file(folder / "new/rows.csv"), csv.out);
  EXPECT_EQ(file.out, csv.err);
  EXPECT_EQ(run({"--quiet", "--examples", "3"}).out, csv.err);
}

TEST_F(PredictDigits, AFileOfWeightsAloneNeedsItsNetwork) {
  train();
  const std::string model = write_model_file();
  EXPECT_EQ(summary_of(1, {model, data, "--arch", "mlp"}).at("accuracy"), accuracy());
  expect_lines(
      {{{model, data},
        "model.npz: no about.json beside it says which network it is; give --arch",
        ErrorKind::usage},
       {{model, "--arch", "mlp"},
        "nothing says what the model was tested on; give --data",
        ErrorKind::usage},
       {{model, data, "--arch", "lenet"}, "give --standardize on or off", ErrorKind::usage},
       {{model, data, "--arch", "lenet", "--standardize", "off"},
        "model.npz is of another model: conv1/W (20x1x3x3) is not in the file",
        ErrorKind::data},
       {{model, data, "--arch", "mlp", "--unit", "33"},
        "is of another model: l1/W is 32x784",
        ErrorKind::data},
       {{model, data, "--arch", "mlp", "--classes", "11"},
        "l3/W is 10x32 in the file",
        ErrorKind::data}});
  const std::string diverged = write_model_file("diverged.npz", NAN);
  expect_lines({{{diverged, data, "--arch", "mlp"}, "are not finite numbers", ErrorKind::data}});
  // An older run's about.json has neither flags nor program.
  write_file(folder / "model/about.json", R"({"version": "0.1", "data": "here"})");
  expect_lines({{{model, data}, "no about.json beside it", ErrorKind::usage}});
  write_file(folder / "model/about.json", R"({"program": "own_program"})");
  expect_lines({{{model, data},
                 "predict does not know the network of own_program; give --arch",
                 ErrorKind::usage}});
  write_file(folder / "model/about.json", "[1]");
  expect_lines({{{model, data},
                 "about.json: expected what a training program wrote there",
                 ErrorKind::data}});
}

TEST_F(PredictDigits, BadInputIsOneLine) {
  train();
  const auto write = [&](const std::string& name, const std::string& contents) {
    write_file(folder / name, contents);
    return std::string(folder / name);
  };
  fs::create_directories(folder / "empty");
  fs::create_directories(folder / "classes/a");
  std::string damaged = read_file(folder / "result/snapshot_iter_10");
  damaged[damaged.size() / 2] ^= 1;
  const std::string small = std::string(
      "\0\0\x8\x3\0\0\0\x1\0\0\0\x2\0\0\0\x2"
      "abcd",
      20);
  expect_lines(
      {{{folder / "nothing", data}, "nothing: no such file", ErrorKind::missing},
       {{folder / "empty", data},
        "there is no snapshot_iter_<number> in this folder",
        ErrorKind::missing},
       {{write("text.npz", "no model"), data}, "text.npz", ErrorKind::data},
       {{write("damaged", damaged), data, "--arch", "mlp"},
        "is damaged: its hash",
        ErrorKind::data},
       {{result(), folder / "nothing"},
        "nothing: expected images, found no such file",
        ErrorKind::missing},
       {{result(), folder / "empty"},
        "empty: expected images (.jpg, .jpeg, .png)",
        ErrorKind::missing},
       {{result(), write("text", "no image")},
        "text: expected a JPEG or PNG image, an IDX file",
        ErrorKind::data},
       {{result(), write("broken.png", "\x89PNG\r\n\x1a\n")}, "broken.png", ErrorKind::data},
       {{result(), data, folder / "broken.png"}, "several inputs are images", ErrorKind::usage},
       {{result(), labels()}, "expected images, found labels", ErrorKind::data},
       {{result(), write("small", small)},
        "small: expected examples of shape 784, which the model takes, found 1x2x2",
        ErrorKind::data},
       {{result(), folder / "classes"},
        "expected a subfolder for each of the model's 10",
        ErrorKind::data},
       {{result(), images(), "--labels", write("few", "1\n2\n")},
        "few: expected 100 labels, as many as examples in",
        ErrorKind::data},
       {{result(), images(), "--labels", write("other", "1\n10\n")},
        "other: line 2: expected a number from 0 to 9, found '10'",
        ErrorKind::data},
       {{result(), images(), "--labels", images()},
        "expected labels, found images",
        ErrorKind::data},
       {{result(), "--classes-file", folder / "few"},
        "few: expected the names of 10 classes",
        ErrorKind::data},
       {{result(), "--out", folder.path()},
        "expected the name of a file, found a folder",
        ErrorKind::cannot_write},
       {{result(), data, "--data", data}, "give the input once", ErrorKind::usage},
       {{result(), "--model", data}, "give the model once", ErrorKind::usage},
       {{result(), "--arch", "mpl"}, "did you mean mlp?", ErrorKind::usage}});
  // Once for all ranks.
  const Finished job = run_program(mpirun(2, predict_words({result(), folder / "nothing"})));
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::missing)) << job.all();
  EXPECT_EQ(count_of(job.err, "expected images, found no such file"), 1) << job.all();
}

TEST_F(PredictDigits, HelpNamesEveryFlagOnce) {
  const Finished job = run_program(mpirun(2, {PREDICT, "--help"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  for (const char* flag : {"--model PATH", "--data PATH", "--arch NAME", "--top K", "--labels FILE",
                           "--format NAME", "--out FILE", "--gpu [N]"})
    EXPECT_EQ(count_of(job.out, flag), 1) << flag << '\n' << job.out;
}

TEST_F(PredictDigits, GpuSaysTheSame) {
  train();
  const json summary = summary_of(1, {result(), "--gpu"});
  EXPECT_EQ(summary.at("accuracy"), accuracy());
  EXPECT_NEAR(summary.at("loss").get<double>(), loss(), 1e-4 * loss());
}

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
TEST_F(PredictPictures, FoldersOfImagesHaveNamedClasses) {
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

// Its images are cropped and scaled as for its evaluation.
TEST_F(PredictPictures, RunsOfTrainImagenetSayWhatTheySaid) {
  const std::string result = folder / "imagenet";
  const Finished job =
      run_program({TRAIN_IMAGENET, data + "/train", data + "/val", "--arch", "resnet18",
                   "--image-size", "32", "-b", "6", "--epoch", "2", "--threads", "1", "--conv",
                   "direct", "--quiet", "--out", result});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const json log = json::parse(read_file(result + "/log"));
  const double loss = log.back().at("validation/main/loss");
  for (const auto& inputs : {std::vector<std::string>{}, {data + "/val"}}) {
    const json summary = summary_of(1, with({result}, with(inputs, {"--conv", "direct"})));
    EXPECT_EQ(summary.at("examples"), 12);
    EXPECT_EQ(summary.at("accuracy"), log.back().at("validation/main/accuracy"));
    EXPECT_NEAR(summary.at("loss").get<double>(), loss, 1e-5 * loss);
    EXPECT_EQ(summary.at("class_names"), (json{"bright", "dark"}));
  }
}

class PredictSentences : public ::testing::Test {
 protected:
  std::string result() const { return folder / "result"; }
  // Trains a small model and returns the last entry of its log.
  json train(const std::vector<std::string>& flags) {
    const Finished job = run_program(with({TRAIN_SEQ2SEQ, "--layer", "1", "--bleu", "--threads",
                                           "1", "--quiet", "--overwrite", "--out", result()},
                                          flags));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return json::parse(read_file(result() + "/log")).back();
  }

  TemporaryFolder folder;
};

TEST_F(PredictSentences, DatesAreTranslatedAsInTheRun) {
  const json log = train({"--unit", "64", "--epoch", "3", "-b", "16", "--examples", "2000",
                          "--test-examples", "50", "--lr", "0.005"});
  const auto rows = predicted(1, {result()}), parts = predicted(2, {result(), "--batchsize", "7"});
  ASSERT_EQ(rows.size(), 51u);
  const json summary = rows.back().at("summary");
  EXPECT_EQ(summary.at("exact"), log.at("validation/main/exact"));
  EXPECT_NEAR(summary.at("bleu").get<double>(), log.at("validation/main/bleu"), 1e-12);
  EXPECT_GT(summary.at("bleu"), 0);
  EXPECT_EQ(parts, rows);

  write_file(folder / "dates", "4 july 1976\n\n12/5/2001\n");
  const auto own = predicted(1, {result(), folder / "dates"});
  ASSERT_EQ(own.size(), 3u);
  EXPECT_EQ(own[0].at("source"), "4 july 1976");
  EXPECT_FALSE(own[0].contains("target"));
  const std::string said = own[0].at("translation");
  EXPECT_EQ(said.find_first_not_of("-0123456789"), std::string::npos) << said;
  write_file(folder / "iso", "1976-07-04\n");
  expect_lines({{{result(), folder / "dates", "--target", folder / "iso"},
                 "iso: expected 3 lines, as many as in",
                 ErrorKind::data},
                {{result(), "--target", folder / "iso"},
                 "--target: expected --data with it",
                 ErrorKind::usage},
                {{result(), folder / "nothing"}, "nothing", ErrorKind::missing}});
}

TEST_F(PredictSentences, VocabulariesAreThoseOfTheTraining) {
  std::string source, target;
  for (int i = 0; i < 40; ++i) {
    source += fmt::format("a{} b c\n", i % 5);
    target += fmt::format("x{} y\n", i % 5);
  }
  const std::string from = folder / "from", to = folder / "to";
  write_file(from, source);
  write_file(to, target);
  const json log = train({"--unit", "16", "--epoch", "30", "-b", "10", "--lr", "0.02", "--source",
                          from, "--target", to, "--test-source", from, "--test-target", to});
  const json summary = summary_of(1, {result()});
  EXPECT_EQ(summary.at("examples"), 40);
  EXPECT_EQ(summary.at("exact"), log.at("validation/main/exact"));
  EXPECT_EQ(summary.at("exact"), 1);
  write_file(folder / "new", "a3 b c\n");
  EXPECT_EQ(predicted(1, {result(), folder / "new"}).at(0).at("translation"), "x3 y");

  // Without test files the run holds out the last two pairs, whose new word is in no vocabulary.
  write_file(from, source + "new b c\n");
  write_file(to, target + "new y\n");
  const json held_out_log = train({"--unit", "16", "--epoch", "30", "-b", "10", "--lr", "0.02",
                                   "--source", from, "--target", to});
  const json held_out = summary_of(1, {result()});
  EXPECT_EQ(held_out.at("examples"), 2);
  EXPECT_EQ(held_out.at("exact"), 0.5);
  for (const char* const key : {"exact", "bleu"})
    EXPECT_EQ(held_out.at(key), held_out_log.at(std::string("validation/main/") + key)) << key;

  // A run that was given relative paths can be used from other folders.
  const Finished job = run_program(
      with({"sh", "-c", "cd \"$0\" && exec \"$@\"", folder.path(), TRAIN_SEQ2SEQ, "--unit", "16",
            "--layer", "1", "--max-iterations", "1", "--threads", "1", "--quiet"},
           {"--out", "elsewhere", "--source", "from", "--target", "to"}));
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(predicted(1, {folder / "elsewhere", folder / "new"}).size(), 2u);
  const json about = json::parse(read_file(folder / "elsewhere/about.json"));
  EXPECT_EQ(about.at("flags").at("source"), fs::canonical(from).string());
  EXPECT_EQ(about.at("flags").at("test-source"), "none");
  fs::rename(folder / "elsewhere", folder / "moved");
  fs::rename(to, folder / "hidden");
  expect_lines(
      {{{folder / "moved", folder / "new"},
        "to: expected a data file, found no file (about.json beside the model names this file)",
        ErrorKind::missing}});
  fs::rename(folder / "hidden", to);

  // As many words, of which one is another.
  write_file(to, target + "other y\n");
  EXPECT_EQ(run_program(predict_words({result()})).exit_code, 0) << "held out: in no vocabulary";
  std::string changed = target;
  for (std::size_t at = 0; (at = changed.find("x3", at)) != std::string::npos;)
    changed.replace(at, 2, "z3");
  write_file(to, changed + "new y\n");
  expect_lines({{{result()},
                 "to: expected the vocabulary that the model was trained with, found other words",
                 ErrorKind::data}});

  write_file(from, "another word\n" + source);
  write_file(to, "z\n" + target);
  expect_lines({{{result(), folder / "new"},
                 "from: expected a vocabulary of 9 words, which the model has, found one of 11",
                 ErrorKind::data}});
}

// One long sentence leaves the columns of the others narrow.
TEST_F(PredictSentences, LongSentencesDoNotPadTheTable) {
  train({"--unit", "4", "--max-iterations", "1", "--examples", "8", "--test-examples", "2"});
  write_file(folder / "dates", std::string(300, '1') + "\n4 july 1976\n");
  const Finished job = run_program(
      predict_words({result(), folder / "dates", "--longest", "5", "--format", "table"}));
  ASSERT_EQ(job.exit_code, 0) << job.all();
  std::istringstream lines(job.out);
  std::string header, longest, brief;
  std::getline(lines, header);
  std::getline(lines, longest);
  std::getline(lines, brief);
  EXPECT_EQ(header, "source" + std::string(44, ' ') + "translation");
  EXPECT_EQ(longest.substr(0, 302), std::string(300, '1') + "  ");
  EXPECT_EQ(brief.substr(0, 50), "4 july 1976" + std::string(39, ' '));
}

}  // namespace
}  // namespace tasuki::testing
