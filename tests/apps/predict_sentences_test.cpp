// predict translates by models of train_seq2seq.
#include "predict_job.hpp"
#include "tests/support/json.hpp"

namespace tasuki::testing {
namespace {

class PredictSentences : public ::testing::Test {
 protected:
  std::string result() const { return folder / "result"; }
  // Trains a small model and returns the last entry of its log.
  json train(const std::vector<std::string>& flags, int np = 1) {
    const std::vector<std::string> words =
        with({TRAIN_SEQ2SEQ, "--layer", "1", "--bleu", "--threads", "1", "--quiet", "--overwrite",
              "--out", result()},
             flags);
    const Finished job = run_program(np == 1 ? words : mpirun(np, words));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return json_in(result() + "/log").back();
  }

  TemporaryFolder folder;
};

TEST_F(PredictSentences, TranslatesDatesAsInTheRun) {
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

TEST_F(PredictSentences, JoinsEncoderAndDecoderOfTwoRanks) {
  const json log = train({"--model-parallel", "--unit", "32", "--epoch", "1", "-b", "16",
                          "--examples", "400", "--test-examples", "20"},
                         2);
  const json summary = summary_of(1, {result()});
  EXPECT_EQ(summary.at("exact"), log.at("validation/main/exact"));
  EXPECT_NEAR(summary.at("bleu").get<double>(), log.at("validation/main/bleu"), 1e-12);
}

TEST_F(PredictSentences, UsesTheTrainingVocabularies) {
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

  train({"--unit", "16", "--max-iterations", "1", "--source", from, "--target", to, "--test-source",
         from, "--test-target", to, "--test-examples", "3"});
  EXPECT_EQ(summary_of(1, {result()}).at("examples"), 3);

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
  const json about = json_in(folder / "elsewhere/about.json");
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
TEST_F(PredictSentences, DoesNotPadTheTableForLongSentences) {
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
