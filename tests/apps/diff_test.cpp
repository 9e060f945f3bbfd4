// tasuki-diff on runs: what it finds, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/training/small_run.hpp"
#include "train_mnist_job.hpp"
#include "training/extensions/hash_log.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class Differences : public TrainMnist {
 protected:
  Finished diff(std::vector<std::string> words) const {
    words.insert(words.begin(), DIFF);
    return run_program(words);
  }
  std::string found(const std::vector<std::string>& words, int exit_code) const {
    const Finished made = diff(words);
    EXPECT_EQ(made.exit_code, exit_code) << made.all();
    EXPECT_EQ(made.err, "");
    return made.out;
  }
  void expect_refusal(const std::vector<std::string>& words, const std::string& line,
                      ErrorKind kind) const {
    const Finished made = diff(words);
    EXPECT_EQ(made.exit_code, static_cast<int>(kind)) << made.all();
    EXPECT_THAT(made.err, HasSubstr(line));
    EXPECT_EQ(count_of(made.err, "\n"), 1) << made.err;
    EXPECT_EQ(made.out, "");
  }
  // A run that flips the lowest bit of the first weight after the update of an iteration.
  std::string planted(const std::string& name, std::int64_t iteration) {
    const SmallRun run(folder / name, nullptr, {.epochs = 100, .iterations = 12});
    log_hashes(*run.trainer, {});
    run.trainer->extend(std::make_unique<Snapshot>(), {.trigger = every(4, Unit::iteration)});
    run.trainer->extend(make_extension(
        "Flip",
        [&](Trainer& trainer) {
          if (trainer.updater().iteration() != iteration) return;
          const Module::NamedParameter first = run.model->parameters().front();
          float& weight = first.parameter->value().data<float>()[5];
          std::uint32_t bits = 0;
          std::memcpy(&bits, &weight, sizeof bits);
          bits ^= 1U;
          std::memcpy(&weight, &bits, sizeof bits);
        },
        std::numeric_limits<int>::max()));
    run.trainer->run();
    return folder / name;
  }
};

TEST_F(Differences, AreNoneBetweenEqualRuns) {
  const std::vector<std::string> flags = {
      "-b", "24", "--epoch", "2", "--hash-every", "3", "--checkpoint-every", "8it"};
  std::vector<std::string> runs;
  for (const char* const name : {"one", "two"}) {
    log_of(2, name, flags);
    runs.push_back(folder / name);
  }
  EXPECT_THAT(found(runs, 0),
              AllOf(HasSubstr("Settings: none differs that results depend on\n"),
                    HasSubstr("Hashes: iterations 3 to 20 are equal (7 compared)\n"),
                    HasSubstr("Log: 2 entries are equal, but for times\n"),
                    HasSubstr("Saved states of iteration 20: 32 arrays, equal\n"),
                    HasSubstr("No difference found.\n")));
  // Shared or divided weights and states give the same bits.
  log_of(2, "two", with(flags, {"--node-weights", "private", "--shard-optimizer"}));
  EXPECT_THAT(found(runs, 0), AllOf(HasSubstr("  --shard-optimizer: false | true\n"),
                                    HasSubstr("Hashes: iterations 3 to 20 are equal")));
  log_of(2, "two", with(flags, {"--seed", "1"}));
  EXPECT_THAT(found(runs, 1),
              AllOf(HasSubstr("  --seed: 0 | 1\n"),
                    HasSubstr("Hashes: iteration 3 differs, first in the loss\n"),
                    HasSubstr("  gradients: 6 of 6 arrays differ: predictor/l1/W, "),
                    HasSubstr("Saved states of iteration 8: "), HasSubstr(" more (--all lists")));
  EXPECT_THAT(found({runs[0], runs[1], "--all"}, 1),
              AllOf(HasSubstr("\n  predictor/l3/b/v: "), Not(HasSubstr(" more (--all lists"))));
}

// A resumed job's file is that of an undisturbed one.
TEST_F(Differences, AreNoneAfterAResume) {
  const std::vector<std::string> flags = {"-b", "24", "--hash-every", "3", "--checkpoint-every",
                                          "8it"};
  log_of(2, "whole", with(flags, {"--epoch", "3"}));
  log_of(2, "cut", with(flags, {"--epoch", "2"}));
  const Finished resumed =
      run(2, "cut", with(flags, {"--epoch", "3", "--resume", folder / "cut/checkpoints/iter_16"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_EQ(read_file(folder / "cut/hashes"), read_file(folder / "whole/hashes"));
  found({folder / "whole", folder / "cut"}, 0);
}

TEST_F(Differences, AreFoundAtTheirIterationAndArray) {
  const std::string sound = planted("sound", 0), damaged = planted("damaged", 7);
  EXPECT_EQ(found({sound, planted("again", 0)}, 0).find("differs"), std::string::npos);
  const std::string text = found({sound, damaged}, 1);
  EXPECT_THAT(text,
              AllOf(HasSubstr("Hashes: iteration 7 differs, first in the weights of "
                              "predictor/l1/W\n"),
                    HasSubstr("  before: iterations 1 to 6 are equal\n"), HasSubstr("  loss: "),
                    HasSubstr(", equal\n"), HasSubstr("  gradients: 6 arrays, equal\n"),
                    HasSubstr("  weights: 1 of 6 arrays differ: predictor/l1/W\n"),
                    HasSubstr("Saved states of iteration 8: ")));
  // Without hashes, the saved states tell.
  fs::remove(fs::path(damaged) / "hashes");
  EXPECT_THAT(found({sound, damaged}, 1),
              AllOf(HasSubstr("Hashes: only the first run has them"),
                    HasSubstr("Saved states of iteration 4: "), HasSubstr(" arrays, equal\n"),
                    HasSubstr("Saved states of iteration 8: ")));
}

TEST_F(Differences, AreFoundBetweenFiles) {
  const std::string sound = planted("sound", 0), damaged = planted("damaged", 8);
  EXPECT_THAT(found({sound + "/snapshot_iter_8", damaged + "/snapshot_iter_8"}, 1),
              AllOf(HasSubstr("Arrays: 1 of "),
                    HasSubstr("  predictor/l1/W: 1 of 96 elements, first [0, 5]; largest "),
                    HasSubstr(", 1 ulp\n")));
  found({sound + "/snapshot_iter_4", damaged + "/snapshot_iter_4"}, 0);
}

TEST_F(Differences, RefuseWrongInputInOneLine) {
  const std::string one = planted("one", 0), two = planted("two", 0);
  const std::string file = two + "/hashes", whole = read_file(file);
  expect_refusal({}, "expected two output folders or two files before the flags, found 0",
                 ErrorKind::usage);
  expect_refusal({one}, "found 1", ErrorKind::usage);
  expect_refusal({one, one + "/snapshot_iter_8"}, "found one of each", ErrorKind::usage);
  expect_refusal({one, folder / "none"}, "there is no ", ErrorKind::missing);
  fs::create_directories(folder / "empty");
  expect_refusal({one, folder / "empty"}, "there is nothing to compare", ErrorKind::data);
  // A line that is being written is left out.
  write_file(file, whole.substr(0, whole.size() - 10));
  EXPECT_THAT(found({one, two}, 0), HasSubstr("iterations 1 to 11 are equal"));
  for (const std::string& text : {std::string("lines\n"), std::string(1, '\0'), std::string(),
                                  whole + "{}\n", whole + "[[[[\n", whole + whole}) {
    write_file(file, text);
    expect_refusal({one, two}, "two/hashes", ErrorKind::data);
  }
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    std::string flipped = whole;
    flipped[at] ^= 1;
    write_file(file, flipped);
    const Finished made = diff({one, two});
    EXPECT_TRUE(made.exit_code == 65 || made.exit_code <= 1) << at << ' ' << made.all();
  }
  fs::remove(file);
  fs::create_symlink("/dev/zero", file);
  expect_refusal({one, two}, "expected a regular file, found a link", ErrorKind::data);
  fs::remove(file);
  write_file(file, whole);
  for (const std::string& run : {one, two}) write_file(run + "/about.json", "{}");
  found({one, two}, 0);
  for (const char* const name : {"log", "about.json", "snapshot_iter_12"}) {
    const std::string before = read_file(two + '/' + name);
    write_file(two + '/' + name, "[[");
    expect_refusal({one, two}, name, ErrorKind::data);
    write_file(two + '/' + name, before);
  }
}

TEST_F(Differences, HaveAHelp) {
  EXPECT_THAT(found({"--help"}, 0),
              AllOf(HasSubstr("tasuki-diff result result-2"), HasSubstr("--all")));
}

// Where other runs' results are kept, the flag changes nothing but the file.
TEST_F(Differences, AreNotMadeByTheFlag) {
  const std::vector<std::string> flags = {"-b", "48", "--epoch", "1"};
  log_of(1, "plain", flags);
  log_of(1, "hashed", with(flags, {"--hash-every", "1"}));
  EXPECT_FALSE(fs::exists(folder / "plain/hashes"));
  EXPECT_THAT(found({folder / "plain", folder / "hashed"}, 0),
              HasSubstr("Hashes: only the second run has them"));
  for (const char* const text : {"0", "-1", "x", "1.5"}) {
    const Finished job = run(1, "refused", with(flags, {"--hash-every", text}));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
  }
  fs::create_directories(folder / "theirs");
  write_file(folder / "theirs/hashes", "mine\n");
  const Finished job = run(1, "theirs", with(flags, {"--hash-every", "1"}));
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
  EXPECT_EQ(count_of(job.err, "--hash-every goes on only in a file that it has written"), 1);
  EXPECT_EQ(read_file(folder / "theirs/hashes"), "mine\n");
}

}  // namespace
}  // namespace tasuki::testing
