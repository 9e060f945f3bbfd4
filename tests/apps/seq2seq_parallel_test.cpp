// train_seq2seq --model-parallel learns what whole models do.

#include <filesystem>

#include "core/error.hpp"
#include "part_weights.hpp"
#include "saving/npz.hpp"
#include "seq2seq_job.hpp"

namespace tasuki::testing {
namespace {

class Seq2seqOverRanks : public Seq2seqJob {
 protected:
  void expect_same_logs(const nlohmann::json& found, const nlohmann::json& expected) {
    for (const char* const key : {"main/loss", "main/accuracy", "validation/main/loss",
                                  "validation/main/exact", "validation/main/bleu"}) {
      SCOPED_TRACE(key);
      EXPECT_FALSE(values_of(expected, key).empty());
      expect_near(values_of(found, key), values_of(expected, key), 1e-4);
    }
    const auto losses = values_of(expected, "main/loss");
    EXPECT_LT(losses.back(), 0.9 * losses.front()) << "too little happened to compare";
  }
};

TEST_F(Seq2seqOverRanks, EncoderAndDecoderRanksTrainLikeOneProcess) {
  const auto one = log_of(1, "one", small),
             two = log_of(2, "two", with(small, {"--model-parallel"}));
  ASSERT_EQ(values_of(one, "main/loss").size(), 20U);
  expect_same_logs(two, one);
  expect_same_weights(folder / "two/snapshot_iter_20", folder / "one/snapshot_iter_20");
  EXPECT_TRUE(NpzFile(folder / "two/snapshot_iter_20.0").find("updater/model:main/encoder/1/w7"));
  EXPECT_TRUE(NpzFile(folder / "two/snapshot_iter_20.1").find("updater/model:main/decoder/1/w7"));
}

// The last batch of an epoch has one example, so that one of the pairs has none.
TEST_F(Seq2seqOverRanks, PairsOfRanksTrainLikeWholeModels) {
  const auto flags = with(small, {"--examples", "577"});
  const auto whole = log_of(2, "whole", flags),
             pairs = log_of(4, "pairs", with(flags, {"--model-parallel"}));
  ASSERT_EQ(values_of(whole, "main/loss").size(), 20U);
  expect_same_logs(pairs, whole);
  expect_same_weights(folder / "pairs/snapshot_iter_20", folder / "whole/snapshot_iter_20");
}

TEST_F(Seq2seqOverRanks, ResumesLikeAnUninterruptedRun) {
  const auto flags = with(small, {"--model-parallel"});
  const auto whole = log_of(2, "whole", flags);
  log_of(2, "cut", with(flags, {"--max-iterations", "14"}));
  const auto resumed = log_of(2, "cut", with(flags, {"--resume", "auto"}));
  for (const char* const key : {"main/loss", "validation/main/loss", "validation/main/bleu"})
    EXPECT_EQ(values_of(resumed, key), values_of(whole, key)) << key;
}

TEST_F(Seq2seqOverRanks, NamesSnapshotsOfTheOtherKind) {
  const auto flags = with(small, {"--max-iterations", "2", "--checkpoint-every", "none"});
  log_of(1, "whole", flags);
  log_of(2, "parts", with(flags, {"--model-parallel"}));
  const Finished parts =
      run(2, "more", with(small, {"--model-parallel", "--resume", folder / "whole"}));
  EXPECT_EQ(parts.exit_code, static_cast<int>(ErrorKind::missing)) << parts.all();
  EXPECT_EQ(
      count_of(
          parts.all(),
          "no checkpoint or snapshot_iter_<number>.0 in this folder, only those of a whole model"),
      1)
      << parts.all();
  const Finished whole = run(1, "more", with(small, {"--resume", folder / "parts"}));
  EXPECT_EQ(whole.exit_code, static_cast<int>(ErrorKind::missing)) << whole.all();
  EXPECT_EQ(
      count_of(
          whole.all(),
          "no checkpoint or snapshot_iter_<number> in this folder, only those of parts of a model"),
      1)
      << whole.all();
}

TEST_F(Seq2seqOverRanks, TrainsOnSentenceFiles) {
  std::string source, target;
  for (int i = 0; i < 60; ++i) {
    source += i % 3 == 0 ? "the cat sleeps\n" : "a dog barks loudly\n";
    target += i % 3 == 0 ? "die katze schläft\n" : "ein hund bellt laut\n";
  }
  const auto log = log_of(2, "files",
                          {"--model-parallel", "--source", write("train.en", source), "--target",
                           write("train.de", target), "--unit", "32", "--layer", "1", "-b", "10",
                           "--lr", "0.02", "--stop", "8e", "--bleu"});
  ASSERT_EQ(log.size(), 8U);
  EXPECT_EQ(log.back().at("validation/main/exact"), 1);
  EXPECT_EQ(log.back().at("validation/main/bleu"), 1);
}

TEST_F(Seq2seqOverRanks, RejectsOddRanksAndWholeModelFlags) {
  struct Case {
    int np;
    std::vector<std::string> flags;
    std::string line;
  };
  const Case cases[] = {{1, {}, "expected a multiple of 2 ranks, found 1"},
                        {3, {}, "expected a multiple of 2 ranks, found 3"},
                        {2, {"--clip-norm", "5"}, "--clip-norm: each rank has a part"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const Finished job = run(c.np, "bad", with(c.flags, {"--model-parallel"}));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
    EXPECT_EQ(count_of(job.all(), c.line), 1) << job.all();
    EXPECT_FALSE(std::filesystem::exists(folder / "bad"));
  }
}

}  // namespace
}  // namespace tasuki::testing
