// train_lm as users start it.

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainLm : public TrainingJob {
 protected:
  TrainLm()
      : TrainingJob({TRAIN_LM, "--layers", "1", "--heads", "2", "--width", "16", "--context", "8",
                     "--global-batch", "12", "--lr", "0.02"}) {
    write_text(4000);
  }
  void write_text(int bytes) {
    std::ofstream file(data);
    for (std::int64_t i = 0; i < bytes; ++i) file << "abcdefgh ijk\n"[i * i % 13];
  }
  // Of weights, states, gradients and evaluations, where --hash-every asks for them.
  std::string hashes(const std::string& out) {
    std::ifstream file(folder / out / "hashes");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_error(const std::vector<std::string>& flags, ErrorKind kind, const char* text) {
    const Finished job = run(2, "bad", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), text), 1) << job.all();
  }
};

TEST_F(TrainLm, GivesTheSameLossesOnAnyNumberOfRanks) {
  const std::vector<std::string> flags = {"--shards", "2", "--log-every", "1", "--epoch", "1"};
  const auto one = log_of(1, "np1", flags), two = log_of(2, "np2", flags);
  const auto bits = values_of(one, "main/bits_per_byte");
  ASSERT_GT(bits.size(), 20u);
  EXPECT_LT(bits.back(), 0.9 * bits.front());
  expect_near(values_of(two, "main/bits_per_byte"), bits, 1e-3);
  const auto held_out = values_of(one, "validation/main/bits_per_byte");
  ASSERT_EQ(held_out.size(), 1u);
  expect_near(values_of(two, "validation/main/bits_per_byte"), held_out, 1e-3);
}

TEST_F(TrainLm, LearnsInBfloat16LikeInFloat32) {
  const std::vector<std::string> flags = {"--log-every", "1", "--epoch", "1"};
  const auto exact = log_of(1, "float32", flags);
  const auto rounded = log_of(1, "bfloat16", with(flags, {"--dtype", "bf16"}));
  for (const char* key : {"main/bits_per_byte", "validation/main/bits_per_byte"}) {
    expect_near(values_of(rounded, key), values_of(exact, key), 0.02);
    EXPECT_NE(values_of(rounded, key), values_of(exact, key));
  }
}

// As on a processor with AMX: the same program, linked with emulated tiles.
TEST_F(TrainLm, LearnsInBfloat16ByEmulatedTiles) {
  const std::vector<std::string> flags = {"--log-every", "1",  "--epoch", "1",
                                          "--context",   "16", "--lr",    "0.005"};
  const auto of_bf16 = with(flags, {"--dtype", "bf16"});
  const auto exact = log_of(1, "float32", flags), rounded = log_of(1, "bfloat16", of_bf16);
  std::vector<std::string> words = program("by-tiles", of_bf16);
  words.front() = TRAIN_LM_BY_EMULATED_TILES;
  const Finished job = run_program(words);
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const auto by_tiles = read_log("by-tiles");
  for (const char* key : {"main/bits_per_byte", "validation/main/bits_per_byte"}) {
    expect_near(values_of(by_tiles, key), values_of(exact, key), 0.02);
    EXPECT_NE(values_of(by_tiles, key), values_of(rounded, key)) << "no tiles were used";
  }
}

// The bits of whole gradients, with less memory. The output layer of GPT-2 is its first one, so its
// gradients are begun first and ended last.
TEST_F(TrainLm, DividesGradientsAmongRanks) {
  const std::vector<std::string> flags = {"--arch",           "gpt2", "--layers",    "8",
                                          "--width",          "32",   "--log-every", "1",
                                          "--max-iterations", "20",   "--bucket-mb", "0.02"};
  for (const int np : {2, 3}) {
    SCOPED_TRACE(np);
    const auto losses = [&](const std::string& out, const std::vector<std::string>& more) {
      return values_of(log_of(np, out, with(flags, more)), "main/loss");
    };
    const auto whole = losses("whole", {"--overwrite"});
    ASSERT_EQ(whole.size(), 20u);
    for (const char* const mode : {"overlapped", "slices", "thread"})
      EXPECT_EQ(losses("divided", {"--shard", "gradients", "--exchange", mode, "--overwrite"}),
                whole)
          << mode;
    expect_near(losses("divided", {"--shard", "gradients", "--accumulate", "2", "--overwrite"}),
                losses("whole", {"--accumulate", "2", "--overwrite"}), 1e-3);
    const auto gradients = [&](const char* what) {
      const std::string text = run(np, "dry", with(flags, {"--dry-run", "--shard", what})).out;
      const std::size_t end = text.find(" MB gradients"), begin = text.rfind(' ', end - 1);
      EXPECT_NE(end, std::string::npos) << text;
      return end == std::string::npos ? 0 : std::stod(text.substr(begin + 1));
    };
    EXPECT_LT(gradients("gradients"), (1.0 / np + 0.25) * gradients("states"));
    const std::vector<std::string> of_bf16 = {"--dtype", "bf16", "--overwrite"};
    const auto rounded = losses("whole", of_bf16);
    EXPECT_NE(rounded, whole);
    for (const char* const kept : {"shared", "private"})
      EXPECT_EQ(losses("divided", with(of_bf16, {"--shard", "gradients", "--node-weights", kept})),
                rounded)
          << kept;
  }
}

// The bits of whole weights: hashes of weights, states and gradients, and of the evaluation at the
// end. Each run goes on from the other one's checkpoint.
TEST_F(TrainLm, DividesWeightsAmongRanks) {
  const std::vector<std::string> common = {
      "--layers",     "3", "--width",        "32",   "--log-every",        "1",
      "--hash-every", "4", "--threads",      "1",    "--node-weights",     "private",
      "--epoch",      "1", "--communicator", "auto", "--checkpoint-every", "none"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--arch", "gpt2"},
                                               {"--recompute", "all"},
                                               {"--dtype", "bf16", "--accumulate", "2"}}) {
    SCOPED_TRACE(more[0]);
    const auto flags = with(common, more);
    const auto whole = log_of(2, "whole", with(flags, {"--overwrite"}));
    const std::string expected = hashes("whole");
    ASSERT_FALSE(expected.empty());
    const auto divided =
        log_of(2, "divided",
               with(flags, {"--shard", "weights", "--shard-unit", "blocks/*/*", "--overwrite"}));
    EXPECT_EQ(hashes("divided"), expected);
    EXPECT_EQ(values_of(divided, "validation/main/bits_per_byte"),
              values_of(whole, "validation/main/bits_per_byte"));
    if (more[0] == "--recompute") continue;
    // Stopped in the middle, and continued with the other kind.
    for (const bool begins_divided : {false, true}) {
      const auto kind = [&](bool is_divided) {
        return std::vector<std::string>{"--shard", is_divided ? "weights" : "none"};
      };
      log_of(2, "parts",
             with(with(flags, kind(begins_divided)), {"--max-iterations", "8", "--overwrite"}));
      log_of(2, "parts", with(with(flags, kind(!begins_divided)), {"--resume", folder / "parts"}));
      EXPECT_EQ(hashes("parts"), expected) << begins_divided;
    }
    // Initial weights from the run's own ones.
    const auto again =
        with(flags, {"--init", folder / "divided/latest", "--overwrite", "--max-iterations", "4"});
    log_of(2, "again", again);
    const std::string from_file = hashes("again");
    log_of(2, "again", with(again, {"--shard", "weights"}));
    EXPECT_EQ(hashes("again"), from_file);
    std::filesystem::remove_all(folder / "again");
  }
}

TEST_F(TrainLm, ResumesLikeAnUninterruptedRun) {
  const std::vector<std::string> snapshots = {"--snapshot-every", "1"},
                                 checkpoints = {"--checkpoint-every", "10it"};
  for (const char* const type : {"fp32", "bf16"})
    for (const auto& saved : {snapshots, checkpoints}) {
      SCOPED_TRACE(type + saved[0]);
      const auto flags = with({"--epoch", "2", "--dtype", type, "--hash-every", "1"}, saved);
      const auto whole = log_of(1, "whole", flags);
      const std::string expected = hashes("whole");
      ASSERT_FALSE(expected.empty());
      log_of(1, "parts", with(flags, {"--max-iterations", "38", "--overwrite"}));
      const auto parts = log_of(1, "parts", with(flags, {"--resume", folder / "parts"}));
      EXPECT_EQ(values_of(parts, "validation/main/bits_per_byte").back(),
                values_of(whole, "validation/main/bits_per_byte").back());
      EXPECT_TRUE(hashes("parts") == expected) << "hashes differ";
    }
}

TEST_F(TrainLm, SamplesDependOnlyOnTheSeed) {
  const auto sample = [&](const char* seed) {
    const Finished job =
        run(2, "sample", {"--max-iterations", "20", "--sample", "40", "--seed", seed});
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const std::size_t at = job.out.find("sample:");
    EXPECT_NE(at, std::string::npos) << job.all();
    return at == std::string::npos ? "" : job.out.substr(at, 48);
  };
  const std::string first = sample("1");
  EXPECT_EQ(sample("1"), first);
  EXPECT_NE(sample("2"), first);
}

// A sample of this length takes minutes.
TEST_F(TrainLm, SavesButMakesNoSampleWhenStopped) {
  const Finished job = run_until_asked(
      mpirun(2,
             program("stopped", {"--epoch", "100000", "--log-every", "1", "--sample", "1000000"})),
      "stopped");
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::stopped)) << job.all();
  EXPECT_EQ(count_of(job.err, "stopped and saved after iteration "), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "sample:"), 0) << job.all();
}

TEST_F(TrainLm, SavesTheLastSnapshotBeforeTheSample) {
  const auto out = folder / "out";
  const Finished job = run_program(program("out", {"--max-iterations", "3", "--sample", "1000000"}),
                                   60, {}, [&](pid_t program) {
                                     if (std::filesystem::exists(out / "snapshot_iter_3"))
                                       kill(program, SIGKILL);
                                   });
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(job.exit_code, 128 + SIGKILL) << job.all();
}

// Those that make no sample wait without a limit.
TEST_F(TrainLm, WaitsForLongSamples) {
  const Finished job =
      run_program(mpirun(2, program("out", {"--max-iterations", "1", "--sample", "400000"})), 60,
                  {{"TASUKI_END_SECONDS", "1"}});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_GT(job.seconds, 2) << "too short to tell";
}

TEST_F(TrainLm, MakesASampleUnlessDisabled) {
  const auto samples = [&](const std::vector<std::string>& flags) {
    const Finished job = run(2, "sample", with(flags, {"--max-iterations", "1"}));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return count_of(job.out, "sample:");
  };
  EXPECT_EQ(samples({}), 1);
  EXPECT_EQ(samples({"--sample", "0"}), 0);
  EXPECT_EQ(samples({"--quiet"}), 0);
}

// The file is larger than a text may be. It takes no space on the disk.
TEST_F(TrainLm, ReadsOnlyTheRequestedBytes) {
  std::filesystem::remove(data);
  std::filesystem::create_directories(data);
  std::ofstream(data + "/large").close();
  std::filesystem::resize_file(data + "/large", std::uintmax_t{5} << 30);
  const Finished job = run(2, "part", {"--bytes", "2000", "--max-iterations", "1"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "Text: the first 2000 bytes of " + data), 1) << job.all();
}

TEST_F(TrainLm, UsesAllOfTheUsersText) {
  write_text(4'500'000);
  const std::vector<std::string> flags = {"--max-iterations", "1", "--test-examples", "2"};
  const Finished all = run(1, "all", flags);
  EXPECT_EQ(count_of(all.out, "Text: all 4500000 bytes of " + data), 1) << all.all();
  EXPECT_EQ(count_of(all.out, "(506435 examples"), 1) << all.all();
  const Finished part = run(1, "part", with(flags, {"--bytes", "4000000"}));
  EXPECT_EQ(count_of(part.out, "Text: the first 4000000 bytes of " + data), 1) << part.all();
  EXPECT_EQ(count_of(part.out, "(450079 examples"), 1) << part.all();
}

TEST_F(TrainLm, NamesBadInput) {
  expect_error({"--heads", "3"}, ErrorKind::usage, "--heads 3");
  expect_error({"--data", folder / "nowhere"}, ErrorKind::missing,
               "expected a data file, found no file");
  write_text(60);
  expect_error({}, ErrorKind::data, "at least 10");
  write_text(5);
  expect_error({}, ErrorKind::data, "too short for windows");
  write_text(0);
  expect_error({}, ErrorKind::data, "expected a text, found no bytes");
}

}  // namespace
}  // namespace tasuki::testing
