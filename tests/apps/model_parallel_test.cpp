// train_mnist_model_parallel and train_mnist_dual_parallel learn what train_mnist does.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "part_weights.hpp"
#include "saving/npz.hpp"
#include "tests/support/digits.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using Flags = std::vector<std::string>;

class ModelParallel : public TrainingJob {
 protected:
  ModelParallel() : TrainingJob({"env"}) { write_digits(data, 480, 100); }

  // `program` on the test's data.
  Finished run(const std::string& program_file, int np, const std::string& out,
               const Flags& flags) {
    Flags words = program(out, with({"--unit", "40"}, flags));
    words[0] = program_file;
    return run_program(mpirun(np, words), 60);
  }
  nlohmann::json log_of(const std::string& program_file, int np, const std::string& out,
                        const Flags& flags) {
    const Finished job = run(program_file, np, out, flags);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return read_log(out);
  }
  void expect_refusal(const std::string& program_file, int np, const Flags& flags,
                      const std::string& text, ErrorKind kind = ErrorKind::usage) {
    const Finished job = run(program_file, np, "refused", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, text), 1) << job.all();
    EXPECT_EQ(count_of(job.err, "error:"), 1) << job.all();
    EXPECT_FALSE(std::filesystem::exists(folder / "refused"));
  }
  // That both parts of two snapshots have the same weights and optimizer's state, bit for bit.
  void expect_same_parts(const std::string& found, const std::string& expected) {
    for (const char* const suffix : {".0", ".1"}) {
      const NpzFile a(folder / (found + suffix)), b(folder / (expected + suffix));
      std::size_t compared = 0;
      for (const std::string& name : b.names()) {
        const NpzValue value = b.read(name);
        const auto* const tensor = std::get_if<Tensor>(&value);
        if (!name.starts_with("updater/") || tensor == nullptr) continue;
        const Tensor other = std::get<Tensor>(a.read(name));
        ASSERT_EQ(other.bytes(), tensor->bytes()) << name;
        EXPECT_EQ(std::memcmp(other.raw(), tensor->raw(), tensor->bytes()), 0) << name;
        ++compared;
      }
      EXPECT_GT(compared, 6U);
    }
  }
};

const std::pair<std::string, int> both[] = {{MODEL_PARALLEL, 2}, {DUAL_PARALLEL, 4}};

const Flags hundred_steps = {"--optimizer", "momentum_sgd", "--lr",        "0.05",
                             "--epoch",     "10",           "--log-every", "1"};

TEST_F(ModelParallel, TwoRanksTrainLikeOneProcess) {
  const Flags flags = with(hundred_steps, {"-b", "48"});
  const auto one = log_of(TRAIN_MNIST, 1, "one", flags);
  const auto two = log_of(MODEL_PARALLEL, 2, "two", flags);
  ASSERT_EQ(values_of(one, "main/loss").size(), 100U);
  EXPECT_LT(values_of(one, "main/loss").back(), 0.5 * values_of(one, "main/loss").front());
  for (const char* const key :
       {"main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"})
    expect_near(values_of(two, key), values_of(one, key), 1e-4);
  expect_same_weights(folder / "two/snapshot_iter_100", folder / "one/snapshot_iter_100");
}

TEST_F(ModelParallel, PairsOfRanksTrainLikeWholeModels) {
  const Flags flags = with(hundred_steps, {"-b", "24"});
  const auto whole = log_of(TRAIN_MNIST, 2, "whole", flags);
  const auto pairs = log_of(DUAL_PARALLEL, 4, "pairs", flags);
  ASSERT_EQ(values_of(whole, "main/loss").size(), 100U);
  for (const char* const key :
       {"main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"})
    expect_near(values_of(pairs, key), values_of(whole, key), 1e-4);
  expect_same_weights(folder / "pairs/snapshot_iter_100", folder / "whole/snapshot_iter_100");
}

TEST_F(ModelParallel, MicroBatchesTrainLikeWholeBatches) {
  for (const auto& [file, np] : both) {
    SCOPED_TRACE(np);
    const Flags flags = with(hundred_steps, {"-b", np == 2 ? "48" : "24"});
    const auto whole = log_of(TRAIN_MNIST, np / 2, "whole", with(flags, {"--overwrite"}));
    // Batches that do not divide evenly, and fewer examples than micro-batches in some.
    for (const char* const micro_batches : {"5", "32"}) {
      const auto divided = log_of(file, np, "divided",
                                  with(flags, {"--micro-batches", micro_batches, "--overwrite"}));
      for (const char* const key :
           {"main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"})
        expect_near(values_of(divided, key), values_of(whole, key), 1e-4);
      expect_same_weights(folder / "divided/snapshot_iter_100", folder / "whole/snapshot_iter_100");
    }
  }
}

TEST_F(ModelParallel, MicroBatchesResumeLikeAnUninterruptedRun) {
  const Flags flags = {"-b", "48", "--epoch", "2", "--micro-batches", "4"};
  log_of(MODEL_PARALLEL, 2, "whole", flags);
  log_of(MODEL_PARALLEL, 2, "half", with(flags, {"--max-iterations", "14"}));
  log_of(MODEL_PARALLEL, 2, "half",
         with(flags, {"--resume", folder / "half", "--max-iterations", "20"}));
  expect_same_parts("half/snapshot_iter_20", "whole/snapshot_iter_20");
}

TEST_F(ModelParallel, GpusTrainInFloat16LikeOneGpu) {
  const Flags flags = with({"--gpu", "--dtype", "fp16", "-b", "48", "--epoch", "2", "--lr", "0.01"},
                           {"--optimizer", "momentum_sgd", "--log-every", "1"});
  const auto one = log_of(TRAIN_MNIST, 1, "one", flags);
  const auto two = log_of(MODEL_PARALLEL, 2, "two", flags);
  ASSERT_EQ(values_of(one, "main/loss").size(), 20U);
  expect_near(values_of(two, "main/loss"), values_of(one, "main/loss"), 1e-3);
  const auto states = [&](const char* file) {
    std::vector<double> values;
    for (const char* const state : {"loss_scale", "loss_scale_good_steps"}) {
      const NpzValue value =
          NpzFile(folder / file).read(fmt::format("updater/optimizer:main/{}", state));
      values.push_back(*std::get<Tensor>(value).to(DType::float64).data<double>());
    }
    return values;
  };
  EXPECT_EQ(states("two/snapshot_iter_20.0"), states("one/snapshot_iter_20"));
  EXPECT_EQ(states("two/snapshot_iter_20.1"), states("one/snapshot_iter_20"));
}

TEST_F(ModelParallel, ResumesLikeAnUninterruptedRun) {
  const Flags flags = {"-b", "48", "--epoch", "3", "--keep-best", "validation/main/loss"};
  const auto whole = log_of(MODEL_PARALLEL, 2, "whole", flags);
  const Finished half = run(MODEL_PARALLEL, 2, "half", with(flags, {"--max-iterations", "14"}));
  ASSERT_EQ(half.exit_code, 0) << half.all();
  // A later snapshot of which a part is missing was cut off.
  std::filesystem::copy(folder / "half/snapshot_iter_14.0", folder / "half/snapshot_iter_15.0");
  std::filesystem::remove(folder / "half/latest");
  const auto resumed = log_of(MODEL_PARALLEL, 2, "half",
                              with(flags, {"--resume", folder / "half", "--max-iterations", "30"}));
  expect_near(values_of(resumed, "main/loss"), values_of(whole, "main/loss"), 1e-12);
  expect_near(values_of(resumed, "validation/main/loss"), values_of(whole, "validation/main/loss"),
              1e-12);
  std::string best;
  std::ifstream(folder / "half/best") >> best;
  for (const char* const file : {"state.0.npz", "state.1.npz"})
    EXPECT_TRUE(std::filesystem::exists(folder / "half" / best / file)) << best << ' ' << file;
}

// The run is at its end, where all its files are looked for.
TEST_F(ModelParallel, RewritesMissingPartOfTheLastSnapshot) {
  const Flags flags = {"-b", "48", "--epoch", "1", "--resume", "auto"};
  const auto expect_said = [&](const char* text) {
    const Finished job = run(MODEL_PARALLEL, 2, "run", flags);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.all(), text), 1) << job.all();
  };
  log_of(MODEL_PARALLEL, 2, "run", flags);
  expect_said("nothing to do: ");
  for (const char* const part : {"snapshot_iter_10.0", "snapshot_iter_10.1"}) {
    ASSERT_TRUE(std::filesystem::remove(folder / "run" / part));
    expect_said("writing what is missing at the end of the run: ");
    EXPECT_TRUE(std::filesystem::exists(folder / "run" / part));
  }
  expect_said("nothing to do: ");
}

TEST_F(ModelParallel, InitLoadsWeightsOfEachPart) {
  const auto first = log_of(MODEL_PARALLEL, 2, "first", {"-b", "48", "--epoch", "2"});
  const std::string weights = folder / "first/snapshot_iter_20";
  const Flags still = {"-b",  "48",   "--epoch", "1",      "--optimizer",
                       "sgd", "--lr", "0",       "--init", weights};
  for (const auto& [program, ranks] : {std::pair(MODEL_PARALLEL, 2), {DUAL_PARALLEL, 4}}) {
    const auto again = log_of(program, ranks, "again", with(still, {"--overwrite"}));
    EXPECT_NEAR(values_of(again, "validation/main/loss").back(),
                values_of(first, "validation/main/loss").back(), 1e-6);
  }
  std::filesystem::remove(weights + ".1");
  expect_refusal(MODEL_PARALLEL, 2, {"--init", weights},
                 "snapshot_iter_20.1: ", ErrorKind::missing);
}

TEST_F(ModelParallel, StopsWithinAnEpochAndResumesExactly) {
  for (const auto& [file, np] : both) {
    // An epoch of 480 steps, each of which takes long enough to be met by the signal.
    const Flags flags = {"-b", np == 2 ? "1" : "2", "--unit", "1000", "--log-every", "1"};
    const std::string out = fmt::format("stopped{}", np);
    Flags words = program(out, with(flags, {"--epoch", "1000"}));
    words[0] = file;
    const Finished job = run_until_asked(mpirun(np, words), out);
    ASSERT_EQ(job.exit_code, static_cast<int>(ErrorKind::stopped)) << job.all();
    const std::string line = "stopped and saved after iteration ";
    const std::size_t at = job.err.find(line);
    ASSERT_NE(at, std::string::npos) << job.all();
    const int stopped_after = std::stoi(job.err.substr(at + line.size()));
    EXPECT_LT(stopped_after, np == 2 ? 480 : 120) << "it waited for the end of the epoch";

    const std::string end = std::to_string(stopped_after + 3);
    log_of(file, np, out, with(flags, {"--resume", folder / out, "--max-iterations", end}));
    log_of(file, np, "undisturbed", with(flags, {"--max-iterations", end}));
    const std::string snapshot = "/snapshot_iter_" + end;
    expect_same_parts(out + snapshot, "undisturbed" + snapshot);
  }
}

TEST_F(ModelParallel, SkipsSnapshotsWithADamagedPart) {
  for (const auto& [file, np] : both)
    for (const char* const damaged : {".0", ".1"}) {
      const Flags flags = {
          "-b", "48", "--epoch", "2", "--snapshot-every", "1", "--checkpoint-every", "none"};
      log_of(file, np, "run", flags);
      const std::string last = np == 2 ? "run/snapshot_iter_20" : "run/snapshot_iter_10",
                        before = np == 2 ? "run/snapshot_iter_10" : "run/snapshot_iter_5";
      for (const char* const part : {".0", ".1"})
        std::filesystem::copy_file(folder / (last + part), folder / (std::string("whole") + part),
                                   std::filesystem::copy_options::overwrite_existing);
      const std::string part = folder / (last + damaged);
      std::filesystem::resize_file(part, std::filesystem::file_size(part) - 1);
      const Finished named = run(file, np, "run", with(flags, {"--resume", folder / last}));
      EXPECT_EQ(named.exit_code, static_cast<int>(ErrorKind::data)) << named.all();
      EXPECT_EQ(count_of(named.err, "error: cannot read " + part), 1) << named.all();
      const Finished job = run(file, np, "run", with(flags, {"--resume", folder / "run"}));
      EXPECT_EQ(job.exit_code, 0) << job.all();
      EXPECT_EQ(count_of(job.err, "warning: cannot read " + part), 1) << job.all();
      EXPECT_EQ(count_of(job.err, "; using the one before it\n"), 1) << job.all();
      EXPECT_EQ(count_of(job.out, "Resumed: " + (folder / before).string() + ", epoch 1"), 1)
          << job.all();
      expect_same_parts(last, "whole");
    }
}

// Each rank looks for its part where it was started, as on machines with separate disks.
TEST_F(ModelParallel, PartsCanBeOnSeparateDisks) {
  const auto job = [&](const Flags& flags) {
    Flags words = {"sh", "-c", "cd \"$0/$" + rank_variable() + "\" && exec \"$@\"", folder.path()};
    Flags command = program("", with({"--unit", "40", "-b", "48", "--out", "run"}, flags));
    command[0] = MODEL_PARALLEL;
    return run_program(mpirun(2, with(words, command)), 60);
  };
  for (const char* const disk : {"0", "1"}) std::filesystem::create_directory(folder / disk);
  const Finished first =
      job({"--epoch", "2", "--snapshot-every", "1", "--checkpoint-every", "15it"});
  ASSERT_EQ(first.exit_code, 0) << first.all();
  EXPECT_FALSE(std::filesystem::exists(folder / "0/run/snapshot_iter_20.1"));
  EXPECT_FALSE(std::filesystem::exists(folder / "0/run/checkpoints/iter_20/state.1.npz"));
  for (const char* const damaged : {"snapshot_iter_20.1", "checkpoints/iter_20/state.1.npz"})
    std::filesystem::resize_file(folder / "1/run" / damaged, 1000);
  const Finished second = job({"--epoch", "3", "--resume", "run", "--dry-run"});
  EXPECT_EQ(second.exit_code, 0) << second.all();
  EXPECT_EQ(count_of(second.out, "Resumed: run/checkpoints/iter_15, epoch 1"), 1) << second.all();
  for (const char* const disk : {"0", "1"})
    std::filesystem::remove_all(folder / disk / "run/checkpoints");
  const Finished third = job({"--epoch", "3", "--resume", "run"});
  EXPECT_EQ(third.exit_code, 0) << third.all();
  EXPECT_EQ(count_of(third.out, "Resumed: run/snapshot_iter_10, epoch 1"), 1) << third.all();
}

TEST_F(ModelParallel, NamesSnapshotsWithAnotherNumberOfParts) {
  // Each with an older checkpoint, which fits no better.
  const Flags flags = {"-b", "48", "--epoch", "1", "--checkpoint-every", "5it"};
  log_of(MODEL_PARALLEL, 2, "parts", flags);
  log_of(TRAIN_MNIST, 1, "whole", flags);
  const auto refused = [&](const std::string& file, int np, const std::string& from,
                           const std::string& text, ErrorKind kind = ErrorKind::missing) {
    const Finished job = run(file, np, "refused", with(flags, {"--resume", folder / from}));
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, text), 1) << job.all();
    EXPECT_EQ(count_of(job.err, "using the one before it"), 0) << job.all();
  };
  for (const char* const from : {"parts", "parts/checkpoints/iter_10"})
    refused(TRAIN_MNIST, 1, from,
            "iter_10 is of a model on 2 ranks, and this run has a whole model", ErrorKind::config);
  for (const char* const from : {"whole", "whole/checkpoints/iter_10"})
    refused(DUAL_PARALLEL, 2, from,
            "iter_10 is of a whole model, and this run has a model on 2 ranks", ErrorKind::config);
  for (const char* const out : {"parts", "whole"})
    std::filesystem::remove_all(folder / out / "checkpoints");
  for (const char* const from : {"parts", "parts/snapshot_iter_10"})
    refused(TRAIN_MNIST, 1, from,
            "snapshot_iter_10.0 is a part of a model on 2 ranks, and this run has whole models");
  for (const char* const from : {"whole", "whole/snapshot_iter_10"})
    refused(DUAL_PARALLEL, 2, from,
            "snapshot_iter_10 is of a whole model, and this run has a model on 2 ranks");
  // As where the other parts are on other disks.
  std::filesystem::remove(folder / "parts/snapshot_iter_10.1");
  refused(TRAIN_MNIST, 1, "parts/snapshot_iter_10",
          "snapshot_iter_10.0 is a part of a model on several ranks");
}

TEST_F(ModelParallel, DryRunPrintsThePlan) {
  const Finished job = run(DUAL_PARALLEL, 4, "plan", {"--dry-run", "-b", "24"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "Model: on 2 ranks, 2 times"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "24 per model, 48 together"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "Steps: 10 per epoch"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "Parameters of rank 0:\n"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "Parameters of rank 1:\n"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "Memory of rank 0: "), 1) << job.all();
}

TEST_F(ModelParallel, HelpExplainsTheBatchFlag) {
  for (const auto& [file, np] : both) {
    const Finished job = run_program({file, "--help", "all"});
    EXPECT_EQ(count_of(job.out, "examples per model and step"), 1) << job.all();
  }
}

TEST_F(ModelParallel, RejectsWrongNumbersOfRanks) {
  for (const int np : {1, 3, 4})
    expect_refusal(MODEL_PARALLEL, np, {}, fmt::format("expected 2 ranks, found {}", np));
  expect_refusal(DUAL_PARALLEL, 1, {}, "expected a multiple of 2 ranks, found 1");
  expect_refusal(DUAL_PARALLEL, 3, {}, "expected a multiple of 2 ranks, found 3");
}

TEST_F(ModelParallel, RejectsFlagsForWholeModels) {
  expect_refusal(MODEL_PARALLEL, 2, {"--find-batchsize"}, "--find-batchsize: each rank has a part");
  expect_refusal(MODEL_PARALLEL, 2, {"--clip-norm", "1"}, "--clip-norm: each rank has a part");
}

}  // namespace
}  // namespace tasuki::testing
