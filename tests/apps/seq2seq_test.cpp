// train_seq2seq as users start it.

#include <set>

#include "apps/seq2seq/dates.hpp"
#include "apps/seq2seq/pairs.hpp"
#include "apps/seq2seq/sentence_files.hpp"
#include "core/error.hpp"
#include "seq2seq_job.hpp"

namespace tasuki::testing {
namespace {

using TrainSeq2seq = Seq2seqJob;

TEST_F(TrainSeq2seq, GivesTheSameLossesOnAnyNumberOfRanks) {
  const auto one = log_of(1, "np1", small), two = log_of(2, "np2", small);
  const auto losses = values_of(one, "main/loss");
  ASSERT_EQ(losses.size(), 20U);
  EXPECT_LT(losses.back(), 0.9 * losses.front()) << "too little happened to compare";
  expect_near(values_of(two, "main/loss"), losses, 1e-3);
  for (const char* key : {"validation/main/loss", "validation/main/bleu"}) {
    const auto values = values_of(one, key);
    ASSERT_EQ(values.size(), 2U) << key;
    EXPECT_GT(values[1], 0) << key;
    expect_near(values_of(two, key), values, 0.05);
  }
  EXPECT_EQ(values_of(two, "validation/main/exact").size(), 2U);
}

TEST_F(TrainSeq2seq, LearnsInBfloat16LikeInFloat32) {
  const auto exact = log_of(1, "float32", small);
  const auto rounded = log_of(1, "bfloat16", with(small, {"--dtype", "bf16"}));
  for (const char* key : {"main/loss", "validation/main/loss"}) {
    expect_near(values_of(rounded, key), values_of(exact, key), 0.05);
    EXPECT_NE(values_of(rounded, key), values_of(exact, key));
  }
  EXPECT_EQ(values_of(rounded, "validation/main/bleu").size(), 2U);
}

TEST_F(TrainSeq2seq, ResumesLikeAnUninterruptedRun) {
  const auto whole = log_of(2, "whole", small);
  log_of(2, "cut", with(small, {"--max-iterations", "14"}));
  // Other buckets would deal this epoch's examples in another order.
  const Finished refused = run(2, "cut", with(small, {"--resume", "auto", "--bucket-steps", "5"}));
  EXPECT_EQ(refused.exit_code, 78) << refused.all();
  EXPECT_NE(refused.err.find("bucket_steps 4; this run has bucket_steps 5"), std::string::npos)
      << refused.all();
  const auto resumed = log_of(2, "cut", with(small, {"--resume", "auto"}));
  EXPECT_EQ(values_of(resumed, "main/loss"), values_of(whole, "main/loss"));
  // On another number of ranks, the shards have the same buckets.
  log_of(1, "cut", with(small, {"--max-iterations", "13"}));
  expect_near(values_of(log_of(2, "cut", with(small, {"--resume", "auto"})), "main/loss"),
              values_of(whole, "main/loss"), 1e-4);
}

// Where TASUKI_CUDA_LIBRARY names a simulated GPU.
TEST_F(TrainSeq2seq, GpuMatchesTheCpu) {
  const std::vector<std::string> flags = {
      "--unit", "8",  "--layer", "2",       "--examples", "40",          "--test-examples",
      "6",      "-b", "8",       "--epoch", "2",          "--log-every", "1"};
  const auto cpu = log_of(1, "cpu", flags), gpu = log_of(1, "gpu", with(flags, {"--gpu"}));
  ASSERT_EQ(values_of(cpu, "main/loss").size(), 10U);
  for (const char* key : {"main/loss", "validation/main/loss"})
    expect_near(values_of(gpu, key), values_of(cpu, key), 1e-4);
}

TEST_F(TrainSeq2seq, TrainsOnSentenceFiles) {
  std::string source, target;
  for (int i = 0; i < 60; ++i) {
    source += i % 3 == 0 ? "the  cat sleeps\n" : "a dog\tbarks loudly\n";
    target += i % 3 == 0 ? "die katze schlaeft\n" : "ein hund bellt laut\n";
    if (i == 10) source += "\n", target += "zu viel\n";
  }
  const auto log =
      log_of(2, "files",
             {"--source", write("train.en", source), "--target", write("train.de", target),
              "--test-source", folder / "train.en", "--test-target", folder / "train.de", "--unit",
              "32", "--layer", "1", "-b", "10", "--lr", "0.02", "--stop", "8e", "--bleu"});
  ASSERT_EQ(log.size(), 8U);
  EXPECT_EQ(log.back().at("validation/main/exact"), 1);
  EXPECT_EQ(log.back().at("validation/main/bleu"), 1);
}

TEST_F(TrainSeq2seq, RejectsBadInputInOneLine) {
  const std::string two = write("two", "a\nb\n"), three = write("three", "a\nb\nc\n"),
                    empty = write("empty", "\n"), long_lines = write("long", "a b c d\ne f g h\n"),
                    utf16 = write("utf16", std::string("a\0\n\0b\0\n\0", 8)),
                    other = write("other", "\n\nc\n"), one = write("one", "a\n");
  struct Case {
    std::vector<std::string> flags;
    std::string line;
    ErrorKind kind;
  };
  const Case cases[] = {
      {{"--source", two, "--target", three}, "two has 2 lines and ", ErrorKind::data},
      {{"--source", empty, "--target", empty}, "empty: expected sentences", ErrorKind::data},
      {{"--source", empty, "--target", two}, "empty: expected sentences", ErrorKind::data},
      {{"--source", utf16, "--target", two},
       "utf16: line 1: expected text in UTF-8",
       ErrorKind::data},
      {{"--source", write("left", "a\nb\n\n"), "--target", other, "--max-length", "0"},
       "found none with words on both sides",
       ErrorKind::data},
      {{"--source", one, "--target", one}, "have one pair of sentences", ErrorKind::data},
      {{"--source", two, "--target", folder / "none"}, folder / "none", ErrorKind::missing},
      {{"--source", long_lines, "--target", long_lines, "--max-length", "3"},
       "found none with 1 to 3 words each; raise --max-length",
       ErrorKind::data},
      {{"--source", two}, "--source and --target belong together", ErrorKind::usage},
      {{"--test-source", two, "--test-target", two},
       "expected --source and --target with it",
       ErrorKind::usage},
      {{"--stop", "15"}, "--stop: expected a number of epochs such as 15e", ErrorKind::usage}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const Finished job = run(2, "bad", c.flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(c.kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), c.line), 1) << job.all();
  }
}

TEST(Dates, ExcludeTestDatesFromTraining) {
  std::set<std::string> trained;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto [written, iso] = seq2seq::date_example(3, i, false);
    EXPECT_EQ(seq2seq::date_example(3, i, false).first, written);
    EXPECT_EQ(iso.size(), 10U);
    trained.insert(iso);
  }
  EXPECT_GT(trained.size(), 4000U);
  for (std::int64_t i = 0; i < 1000; ++i)
    EXPECT_FALSE(trained.contains(seq2seq::date_example(3, i, true).second));
}

// White space of several kinds, letters of several bytes, a byte order mark, lines that end with CR
// LF or with the file, lines of which one side has no words, and long ones.
TEST(SentencePairs, AcceptTextAsUsersWriteIt) {
  TemporaryFolder folder;
  std::string many;
  for (int i = 0; i < 30000; ++i) many += "wort ";
  std::ofstream(folder / "en")
      << "\xEF\xBB\xBFthe  cat\tsleeps\r\n \f\v\nyes\nlong\nempty\n東京 は 雨";
  std::ofstream(folder / "de") << "die Katze schläft\nnichts\n\tja \n" << many << "\n\v\nÖl\n";
  const auto short_ones = seq2seq::read_pairs(folder / "en", folder / "de", 49);
  using Sentences = std::vector<std::vector<std::string>>;
  EXPECT_EQ(short_ones.source,
            (Sentences{{"the", "cat", "sleeps"}, {"yes"}, {"東京", "は", "雨"}}));
  EXPECT_EQ(short_ones.target, (Sentences{{"die", "Katze", "schläft"}, {"ja"}, {"Öl"}}));
  const auto all = seq2seq::read_pairs(folder / "en", folder / "de", 0);
  ASSERT_EQ(all.source.size(), 4U);
  EXPECT_EQ(all.target[2].size(), 30000U);
}

// A long test sentence, and none of whose words is in the vocabulary: nothing of it can be right.
TEST_F(TrainSeq2seq, CountsUnknownWordsAsWrong) {
  std::string long_line;
  for (int i = 0; i < 3000; ++i) long_line += "unseen" + std::to_string(i) + " ";
  const std::vector<std::string> files = {"--source",      write("s", "a b\na b\n"),
                                          "--target",      write("t", "c d\nc d\n"),
                                          "--test-source", write("ts", "x y\n" + long_line + "\n"),
                                          "--test-target", write("tt", "z w\n" + long_line + "\n")};
  const auto log = log_of(2, "unknown",
                          with(files, {"--unit", "4", "--layer", "1", "-b", "1", "--stop", "60e",
                                       "--lr", "0.05", "--words", "3", "--bleu"}));
  ASSERT_EQ(log.size(), 60U);
  EXPECT_LT(log.back().at("main/loss").get<double>(), 0.5);
  EXPECT_EQ(log.back().at("validation/main/exact"), 0);
  EXPECT_EQ(log.back().at("validation/main/bleu"), 0);
}

TEST(Vocabulary, ContainsTheMostFrequentWords) {
  seq2seq::WordCounts counts;
  for (const char* const word : {"b", "a", "b", "<unk>", "c", "a", "d", "b", "<unk>"})
    counts.add(word);
  const seq2seq::Vocabulary words(counts, 4);
  EXPECT_EQ(words.size(), 4);
  EXPECT_EQ(words.numbers(std::vector<std::string>{"b", "a", "c", "<eos>"}),
            (std::vector<std::int32_t>{2, 3, 1, 1}));
  EXPECT_EQ(words.word(2), "b");
  EXPECT_EQ(words.hash(), seq2seq::Vocabulary({"b", "a"}).hash());
  EXPECT_NE(words.hash(), seq2seq::Vocabulary({"a", "b"}).hash());
}

TEST(PairsDataset, ReversesSourcesAndMarksTargetEnds) {
  seq2seq::NumberPairs pairs;
  pairs.add(std::vector<std::int32_t>{5, 6, 7}, std::vector<std::int32_t>{8, 9});
  pairs.add(std::vector<std::int32_t>{4}, {});
  const auto data = seq2seq::make_pairs_dataset(std::move(pairs), 10, 12);
  ASSERT_EQ(data->size(), 2);
  const auto read = [&](std::int64_t i, const char* name) {
    StoredField field(*data, data->header().index_of(name));
    const auto bytes = field[i];
    const auto* const numbers = reinterpret_cast<const std::int32_t*>(bytes.data());
    return std::vector<std::int32_t>(numbers, numbers + bytes.size() / sizeof(std::int32_t));
  };
  using Numbers = std::vector<std::int32_t>;
  EXPECT_EQ(read(0, "x"), (Numbers{7, 6, 5}));
  EXPECT_EQ(read(0, "y"), (Numbers{0, 8, 9}));
  EXPECT_EQ(read(0, "t"), (Numbers{8, 9, 0}));
  EXPECT_EQ(read(1, "x"), Numbers{4});
  EXPECT_EQ(read(1, "y"), Numbers{0});
  EXPECT_EQ(read(1, "t"), Numbers{0});
}

// --examples limits what is kept, not what has a number; the last twentieth is held out.
TEST(SentenceFiles, KeepOnlyUsedExamples) {
  TemporaryFolder folder;
  std::ofstream source(folder / "s"), target(folder / "t");
  for (int i = 0; i < 40; ++i) {
    source << "a" << i << " b\n";
    target << "c" << i << " d e\n";
  }
  source.close();
  target.close();
  seq2seq::SentenceFileSettings settings{.source = folder / "s",
                                         .target = folder / "t",
                                         .test_source = {},
                                         .test_target = {},
                                         .words = 100,
                                         .longest = 3,
                                         .examples = 5,
                                         .test_examples = 1};
  seq2seq::SentenceFiles some(settings);
  EXPECT_EQ(some.train()->size(), 5);
  EXPECT_EQ(some.test()->size(), 1);
  EXPECT_EQ(some.from().size(), 2 + 38 + 1);
  EXPECT_EQ(some.test_text().source,
            (std::vector<std::vector<std::string>>{{"a38", "b"}, {"a39", "b"}}));
  settings.examples = settings.test_examples = std::nullopt;
  seq2seq::SentenceFiles all(settings);
  EXPECT_EQ(all.train()->size(), 38);
  EXPECT_EQ(all.test()->size(), 2);
  EXPECT_EQ(all.from().hash(), some.from().hash());
  std::ofstream(folder / "s", std::ios::app) << "f g\n";
  std::ofstream(folder / "t", std::ios::app) << "f g\n";
  EXPECT_EQ(all.train()->size(), 38) << "what follows the training pairs does not count";
  std::ofstream(folder / "s") << "a b\n";
  std::ofstream(folder / "t") << "a b\n";
  EXPECT_THROW(all.train(), Error);
}

// The numbers of the snapshot would be other words.
TEST_F(TrainSeq2seq, RejectsSnapshotsOfAnotherVocabulary) {
  const auto text_with = [](const std::string& word) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += i % 2 == 0 ? "the cat sleeps\n" : "a " + word + " barks\n";
    return text;
  };
  const std::string source = write("s", text_with("dog")), other = write("s2", text_with("wolf")),
                    target = write("t", text_with("hund"));
  const auto flags_of = [&](const std::string& from, const std::string& to) {
    return std::vector<std::string>{"--source", from, "--target", to,  "--unit",           "4",
                                    "--layer",  "1",  "-b",       "4", "--max-iterations", "3"};
  };
  for (const bool is_divided : {false, true}) {
    SCOPED_TRACE(is_divided ? "model-parallel" : "whole");
    const std::string out = is_divided ? "parts" : "whole";
    const std::vector<std::string> kind =
        is_divided ? std::vector<std::string>{"--model-parallel"} : std::vector<std::string>{};
    log_of(2, out, with(flags_of(source, target), kind));
    const std::string snapshot = folder / (out + "/snapshot_iter_3");
    const std::vector<std::vector<std::string>> ways = {
        {"--resume", folder / out, "--max-iterations", "4"}, {"--init", snapshot}};
    for (const auto& way : ways) {
      SCOPED_TRACE(way[0]);
      const Finished source_differs =
          run(2, out + "-more", with(with(flags_of(other, target), kind), way));
      EXPECT_EQ(source_differs.exit_code, static_cast<int>(ErrorKind::config))
          << source_differs.all();
      EXPECT_EQ(count_of(source_differs.all(), "found another one in " + other + "; give --source"),
                1)
          << source_differs.all();
      EXPECT_EQ(count_of(source_differs.all(), snapshot + (is_divided ? ".0: " : ": ")), 1)
          << source_differs.all();
      const Finished target_differs =
          run(2, out + "-more", with(with(flags_of(source, other), kind), way));
      EXPECT_EQ(target_differs.exit_code, static_cast<int>(ErrorKind::config))
          << target_differs.all();
      EXPECT_EQ(count_of(target_differs.all(), "; give --target"), 1) << target_differs.all();
      const Finished same = run(2, out + "-more", with(with(flags_of(source, target), kind), way));
      EXPECT_EQ(same.exit_code, 0) << same.all();
    }
  }
}

TEST_F(TrainSeq2seq, HelpShowsDefaultsForTheCommandLine) {
  const auto help_of = [&](const std::vector<std::string>& flags) {
    return run_program(with({TRAIN_SEQ2SEQ}, with(flags, {"--help", "all"}))).out;
  };
  const std::string dates = help_of({}), files = help_of({"--source", "s", "--target", "t"});
  for (const char* const text : {"(default: 256)", "(default: 0.002)"}) {
    EXPECT_EQ(count_of(dates, text), 1) << dates;
    EXPECT_EQ(count_of(files, text), 0) << files;
  }
  EXPECT_EQ(count_of(files, "(default: 1024)"), 1) << files;
  EXPECT_EQ(count_of(help_of({"-s", "7e"}), "(default: 7)"), 1);
}

}  // namespace
}  // namespace tasuki::testing
