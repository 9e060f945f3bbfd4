// predict as users start it: its answers are those of the runs that it is about.
#include <fstream>

#include "core/json.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/in_memory.hpp"
#include "predict_job.hpp"
#include "tests/support/image_files.hpp"

namespace tasuki::testing {
namespace {

TEST_F(PredictDigits, ReproducesAccuracyAndLossOfTheRun) {
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

TEST_F(PredictDigits, ReadsImageFilesOfSeveralFormats) {
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

TEST_F(PredictDigits, PrintsTheSameAsTableAndCsv) {
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
      fmt::format("\n2        {}      {}           {:.4f}       {} {:.4f}\n", json_text(label),
                  json_text(first.at("class")), first.at("probability").get<double>(),
                  json_text(second.at("class")), second.at("probability").get<double>());
  EXPECT_THAT(table.out, HasSubstr(row));
  const Finished csv = run({"--examples", "3", "--format", "csv"});
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 4);
  EXPECT_THAT(csv.out,
              HasSubstr(fmt::format("\n2,{},{},", json_text(label), json_text(first.at("class")))));
  EXPECT_THAT(csv.err, HasSubstr("Examples: 3\n"));
  const Finished file =
      run({"--out", folder / "new/rows.csv", "--format", "csv", "--examples", "3"});
  EXPECT_EQ(read_file(folder / "new/rows.csv"), csv.out);
  EXPECT_EQ(file.out, csv.err);
  EXPECT_EQ(run({"--quiet", "--examples", "3"}).out, csv.err);
}

TEST_F(PredictDigits, HelpListsEveryFlagOnce) {
  const Finished job = run_program(mpirun(2, {PREDICT, "--help", "all"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  for (const char* flag : {"--model PATH", "--data PATH", "--arch NAME", "--top K", "--labels FILE",
                           "--format NAME", "--out FILE", "--gpu [N]"})
    EXPECT_EQ(count_of(job.out, flag), 1) << flag << '\n' << job.out;
}

TEST_F(PredictDigits, GpuGivesTheSameResult) {
  const json summary = summary_of(1, {result(), "--gpu"});
  EXPECT_EQ(summary.at("accuracy"), accuracy());
  EXPECT_NEAR(summary.at("loss").get<double>(), loss(), 1e-4 * loss());
}

}  // namespace
}  // namespace tasuki::testing
