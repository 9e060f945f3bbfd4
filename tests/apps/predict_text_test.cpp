// predict measures texts, and continues them, by models of train_lm.
#include "predict_job.hpp"
#include "tests/support/json.hpp"

namespace tasuki::testing {
namespace {

// Letters from z to a, again and again, which soon can be told from the one before.
std::string letters(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('z' - i % 26);
  return text;
}

class PredictText : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder / "text", letters(5000));
    const Finished job =
        run_program({TRAIN_LM,  "--data", folder / "text", "--layers",  "1",  "--heads", "2",
                     "--width", "16",     "--context",     "24",        "-b", "8",       "--epoch",
                     "8",       "--lr",   "0.02",          "--threads", "1",  "--quiet", "--out",
                     result()});
    ASSERT_EQ(job.exit_code, 0) << job.all();
    bits = json_in(result() + "/log").back().at("validation/main/bits_per_byte");
  }
  std::string result() const { return folder / "result"; }
  std::string continued(const std::vector<std::string>& flags) const {
    const auto lines = predicted(1, with({result()}, flags));
    return lines.empty() ? "" : lines.front().at("continuation");
  }

  TemporaryFolder folder;
  double bits = 0;
};

TEST_F(PredictText, ReproducesBitsPerByteOfTheRun) {
  for (const int np : {1, 2}) {
    const json summary = summary_of(np, {result(), "--batchsize", "3"});
    EXPECT_NEAR(summary.at("bits_per_byte").get<double>(), bits, 1e-5 * bits);
    EXPECT_EQ(summary.at("bytes").get<int>() % 24, 0);
  }
  // Windows need not be as long as the context.
  write_file(folder / "short", "srqponm");
  write_file(folder / "other", std::string(60, '?'));
  const auto rows = predicted(2, {result(), folder / "short", folder / "other"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("text"), std::string(folder / "short"));
  EXPECT_EQ(rows[0].at("bytes"), 6);
  EXPECT_EQ(rows[1].at("bytes"), 48);
  const double own = rows[0].at("bits_per_byte"), other = rows[1].at("bits_per_byte");
  EXPECT_GT(other, own);
  const json summary = rows[2].at("summary");
  EXPECT_NEAR(summary.at("bits_per_byte").get<double>(), (6 * own + 48 * other) / 54, 1e-9);
  EXPECT_EQ(summary_of(1, {result(), folder / "other", "--examples", "1"}).at("bytes"), 24);
}

TEST_F(PredictText, ContinuesATextAsLearned) {
  EXPECT_LT(bits, 0.5);
  const std::vector<std::string> flags = {"--prompt", letters(5),      "--length",
                                          "50",       "--temperature", "0"};
  EXPECT_EQ(letters(5) + continued(flags), letters(55));
  const auto drawn = [&](const std::string& seed) {
    return continued({"--prompt", "it", "--length", "30", "--temperature", "20", "--seed", seed});
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
  const Finished plain = run_program(mpirun(2, predict_words(with({result()}, flags))));
  EXPECT_EQ(plain.out, letters(55) + "\n\nBytes: 50\n") << plain.all();
}

TEST_F(PredictText, RejectsBadInputInOneLine) {
  write_file(folder / "one", "x");
  expect_lines(
      {{{result(), folder / "text", "--prompt", "x"},
        "a text is either continued or measured; leave one out",
        ErrorKind::usage},
       {{result(), folder / "nothing"},
        "nothing: expected a data file, found no file",
        ErrorKind::missing},
       {{result(), folder / "one"}, "one: expected a text of at least 2", ErrorKind::data},
       {{result(), "--heads", "3"}, "divides the model's width 16, found 3", ErrorKind::usage}});
  fs::remove(result() + "/about.json");
  expect_lines({{{result(), "--arch", "gpt"}, "give --heads", ErrorKind::usage}});
}

}  // namespace
}  // namespace tasuki::testing
