// The file of --hash-every: what its lines say, and what is there after a resume.
#include "training/extensions/hash_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "resumed_run.hpp"
#include "same_run.hpp"
#include "saving/npz.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/joint_updater.hpp"
#include "training/output_folder.hpp"
#include "training/resume.hpp"
#include "training/step_hashes.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::SmallRun;
using testing::TemporaryFolder;
using Steps = std::vector<StepHashes>;

class HashLogs : public testing::Resume {
 protected:
  // Barriers: rank 0 alone writes the files.
  std::string text_in(const std::string& out) {
    comm->barrier();
    std::string text = read_file(folder / (out + "/hashes"));
    comm->barrier();
    return text;
  }
  Steps steps_in(const std::string& out) {
    comm->barrier();
    Steps steps;
    HashReader reader(folder / (out + "/hashes"));
    while (auto step = reader.next()) steps.push_back(std::move(*step));
    comm->barrier();
    return steps;
  }
  std::unique_ptr<SmallRun> run_of(const std::string& out, const SmallRun::Options& options,
                                   std::int64_t every = 1) {
    auto run = std::make_unique<SmallRun>(folder / out, ranks, options);
    log_hashes(*run->trainer, {.every = every});
    return run;
  }
  std::string hashes_of(const std::string& out, const SmallRun::Options& options,
                        std::int64_t every = 1) {
    run_of(out, options, every)->trainer->run();
    return text_in(out);
  }
  // From now on, runs have a communicator whose ranks can share memory.
  void share_memory() { ranks = sharing.get(); }

  std::unique_ptr<Communicator> sharing = create_communicator("auto");
  Communicator* ranks = comm.get();
};

std::vector<std::string> names_of(const StepHashes& step) {
  std::vector<std::string> names;
  for (const StepHashes::Group& group : step.groups) names.push_back(group.name);
  return names;
}

const StepHashes::Group& group_of(const StepHashes& step, const std::string& name) {
  return *std::ranges::find(step.groups, name, &StepHashes::Group::name);
}

TEST_F(HashLogs, SayTheSameOfEqualRunsAndChangeNoBit) {
  SmallRun plain(folder / "plain", comm.get(), {});
  plain.trainer->run();
  const auto first = run_of("first", {});
  first->trainer->run();
  testing::expect_same_run(plain, *first);
  const std::string text = text_in("first");
  EXPECT_EQ(text, hashes_of("second", {}));
  EXPECT_NE(text, hashes_of("other", {.seed = 4}));

  const Steps steps = steps_in("first");
  ASSERT_EQ(std::ssize(steps), first->trainer->updater().iteration());
  EXPECT_THAT(names_of(steps.front()), ElementsAre("buffers", "gradients", "weights", "states"));
  std::vector<std::string> paths;
  for (const auto& [path, parameter] : first->model->parameters()) paths.push_back(path);
  std::vector<std::string> hashed;
  for (const auto& [path, hash] : group_of(steps.front(), "weights").arrays) hashed.push_back(path);
  EXPECT_EQ(hashed, paths);
}

// XXH3 of the bytes that a snapshot has.
TEST_F(HashLogs, AreOfTheBytesInSnapshots) {
  const auto run = run_of("run", {.iterations = 5}, 2);
  run->trainer->run();
  save_snapshot(folder / "state", *run->trainer);
  const StepHashes last = steps_in("run").back();
  EXPECT_EQ(last.iteration, 5);
  EXPECT_TRUE(last.is_of_end);
  const NpzFile file(folder / "state");
  const auto expect = [&](const std::string& group, const std::string& prefix) {
    for (const auto& [path, hash] : group_of(last, group).arrays) {
      const Tensor array = std::get<Tensor>(file.read(prefix + path));
      EXPECT_EQ(hash, hash_bytes({static_cast<const std::byte*>(array.raw()), array.bytes()}))
          << path;
    }
  };
  expect("weights", "updater/model:main/");
  expect("states", "updater/optimizer:main/");
  comm->barrier();
}

// Whoever keeps the weights, the sums and the states.
TEST_F(HashLogs, DoNotDependOnWhoKeepsWhat) {
  share_memory();
  const std::string text = hashes_of("private", {.units = 700});
  EXPECT_EQ(text, hashes_of("shared", {.units = 700, .shares = true}));
  EXPECT_EQ(text, hashes_of("sharded", {.units = 700, .sharded = true}));
  EXPECT_EQ(text, hashes_of("both", {.units = 700, .sharded = true, .shares = true}));
}

TEST_F(HashLogs, HaveEverySoManyIterationsAndTheLast) {
  for (const auto& [iterations, expected] :
       {std::pair<std::int64_t, std::vector<std::int64_t>>{10, {4, 8, 10}}, {8, {4, 8}}}) {
    hashes_of("run", {.epochs = 100, .iterations = iterations}, 4);
    std::vector<std::int64_t> found;
    for (const StepHashes& step : steps_in("run")) found.push_back(step.iteration);
    EXPECT_EQ(found, expected);
  }
}

// The lowest bit of a weight, after the update of iteration 7: that iteration's weights differ, and
// what is computed from them differs in the next one.
TEST_F(HashLogs, ShowAFlippedBitAtItsIterationAndArray) {
  for (const bool shares : {false, true}) {
    SCOPED_TRACE(shares);
    share_memory();
    const SmallRun::Options options{.iterations = 9, .shares = shares};
    hashes_of("sound", options);
    const auto run = run_of("damaged", options);
    const auto flip = [&](Trainer& trainer) {
      if (trainer.updater().iteration() != 7) return;
      const ParameterArena& arena = run->optimizer->arena();
      std::uint32_t bits = 0;
      float& value = arena.values().data<float>()[arena.entries().front().offset];
      std::memcpy(&bits, &value, sizeof bits);
      bits ^= 1U;
      std::memcpy(&value, &bits, sizeof bits);
    };
    run->trainer->extend(make_extension("Flip", flip, std::numeric_limits<int>::max()));
    run->trainer->run();
    const Steps sound = steps_in("sound"), damaged = steps_in("damaged");
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(sound[i].line(), damaged[i].line()) << i;
    EXPECT_EQ(sound[6].loss_hash, damaged[6].loss_hash);
    EXPECT_EQ(group_of(sound[6], "gradients").hash(), group_of(damaged[6], "gradients").hash());
    EXPECT_EQ(group_of(sound[6], "states").hash(), group_of(damaged[6], "states").hash());
    std::vector<std::string> differing;
    const auto& weights = group_of(sound[6], "weights").arrays;
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (weights[i] != group_of(damaged[6], "weights").arrays[i])
        differing.push_back(weights[i].first);
    EXPECT_THAT(differing, ElementsAre(run->optimizer->arena().entries().front().path));
    EXPECT_NE(sound[7].line(), damaged[7].line());
  }
}

TEST_F(HashLogs, GoOnAfterAResume) {
  for (const auto exchange :
       {std::optional<ExchangeMode>(), std::optional(ExchangeMode::double_buffered)})
    for (const std::int64_t cut : {8, 9, 13}) {
      SCOPED_TRACE(fmt::format("{} {}", exchange.has_value(), cut));
      const auto options = [&](std::int64_t iterations) {
        return SmallRun::Options{.epochs = 100, .iterations = iterations, .exchange = exchange};
      };
      const auto saving = [&](SmallRun& run) {
        run.trainer->extend(make_extension(
            "Saving",
            [&](Trainer& trainer) {
              if (trainer.updater().iteration() == cut) save_snapshot(folder / "state", trainer);
            },
            Extension::priority_snapshot));
      };
      const auto whole = run_of("whole", options(20), 3);
      saving(*whole);
      whole->trainer->run();
      // It has gone further than what it is resumed from.
      const auto first = run_of("resumed", options(cut + 4), 3);
      saving(*first);
      first->trainer->run();
      const auto again = run_of("resumed", options(20), 3);
      saving(*again);
      resume(folder / "state", *again->trainer);
      again->trainer->run();
      testing::expect_same_run(*whole, *again);
      EXPECT_EQ(text_in("resumed"), text_in("whole"));
    }
}

// Double-buffered gradients are used a step later.
TEST_F(HashLogs, HaveNoGradientsOfAStepWithoutUpdate) {
  if (comm->size() == 1) GTEST_SKIP() << "of several ranks";
  const SmallRun::Options options{.iterations = 3};
  SmallRun::Options late = options;
  late.exchange = ExchangeMode::double_buffered;
  hashes_of("direct", options);
  hashes_of("late", late);
  const Steps direct = steps_in("direct"), found = steps_in("late");
  EXPECT_THAT(names_of(found[0]), ElementsAre("buffers", "weights", "states"));
  EXPECT_EQ(group_of(found[1], "gradients").hash(), group_of(direct[0], "gradients").hash());
  EXPECT_NE(group_of(found[1], "weights").hash(), group_of(found[0], "weights").hash());
}

std::vector<std::string> paths_in(const StepHashes& step, const std::string& group) {
  std::vector<std::string> paths;
  for (const auto& [path, hash] : group_of(step, group).arrays) paths.push_back(path);
  return paths;
}

TEST_F(HashLogs, NameTheOptimizer) {
  Linear first(12, 5), second(5, 1);
  first.initialize(1);
  second.initialize(2);
  const auto optimizer_of = [&](Module& model) {
    auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
    optimizer->setup(model);
    return optimizer;
  };
  const auto gen = optimizer_of(first), dis = optimizer_of(second);
  const auto losses = [&](const Batch& batch, Observation&) {
    const Variable result = second(first(Variable(batch["x"])));
    const auto distance = [&](double target) {
      return functions::mean_squared_error(result, Tensor::full(result.shape(), target));
    };
    return std::vector{distance(1), distance(-2)};
  };
  Trainer trainer(
      std::make_unique<JointUpdater>(
          create_shuffled_iterator(testing::share_of(testing::synthetic(40), comm.get()), 5, 3),
          NamedOptimizers{{"gen", gen.get()}, {"dis", dis.get()}}, losses,
          JointUpdater::Settings()),
      stop_after(100, 2), folder / "joint");
  log_hashes(trainer, {});
  trainer.run();
  const StepHashes step = steps_in("joint").front();
  EXPECT_TRUE(step.loss);
  EXPECT_THAT(paths_in(step, "weights"), ElementsAre("gen/W", "gen/b", "dis/W", "dis/b"));
  EXPECT_THAT(paths_in(step, "gradients"), ElementsAre("gen/W", "gen/b", "dis/W", "dis/b"));
  EXPECT_THAT(paths_in(step, "states"), ElementsAre("gen/W/v", "gen/b/v", "dis/W/v", "dis/b/v"));
}

TEST_F(HashLogs, HaveAllPartsOfAModel) {
  if (comm->size() % 2 != 0) GTEST_SKIP() << "of two parts with as many replicas";
  const int part = comm->rank() % 2;
  const auto replicas = comm->split(part, comm->rank());
  Linear model(12, 4 + part);
  model.initialize(static_cast<std::uint64_t>(part));
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *replicas);
  optimizer->setup(model);
  StandardUpdater::Settings settings;
  settings.all_ranks = comm.get();
  Trainer trainer(
      std::make_unique<StandardUpdater>(
          create_shuffled_iterator(testing::share_of(testing::synthetic(40), replicas.get()), 5, 3),
          *optimizer,
          [&](const Batch& batch, Observation&) {
            const Variable y = model(Variable(batch["x"]));
            return functions::mean_squared_error(y, Tensor::full(y.shape(), 1));
          },
          settings),
      stop_after(100, 2), folder / "parts");
  log_hashes(trainer, {});
  trainer.run();
  const StepHashes step = steps_in("parts").back();
  EXPECT_THAT(paths_in(step, "weights"), ElementsAre("part0/W", "part0/b", "part1/W", "part1/b"));
  EXPECT_THAT(paths_in(step, "gradients"), ElementsAre("part0/W", "part0/b", "part1/W", "part1/b"));
}

TEST_F(HashLogs, ReplaceTheirOwnFileAndNoOther) {
  const std::string text = hashes_of("run", {.iterations = 3});
  EXPECT_EQ(text, hashes_of("run", {.iterations = 3}));
  if (comm->rank() == 0) {
    EXPECT_TRUE(has_results(folder / "run"));
    std::filesystem::create_directories(folder / "theirs");
    write_file(folder / "theirs/hashes", "my own\nlines\n");
    EXPECT_FALSE(has_results(folder / "theirs"));
    remove_results(folder / "theirs");
  }
  comm->barrier();
  expect_error(ErrorKind::data, {"theirs/hashes, line 1: expected", "found 'my own'"},
               [&] { run_of("theirs", {.iterations = 3})->trainer->run(); });
  comm->barrier();
  EXPECT_EQ(read_file(folder / "theirs/hashes"), "my own\nlines\n");
}

// A file that was removed is begun; one of another run is refused.
TEST_F(HashLogs, KnowTheFileOfTheirRun) {
  const auto first = run_of("run", {.iterations = 4});
  first->trainer->run();
  save_snapshot(folder / "state", *first->trainer);
  hashes_of("other", {.iterations = 8, .seed = 4});
  const auto resumed = [&](const std::string& out) {
    const auto run = run_of(out, {.iterations = 6});
    resume(folder / "state", *run->trainer);
    run->trainer->run();
  };
  expect_error(ErrorKind::data, {"other/hashes: it lacks the line of iteration 4"},
               [&] { resumed("other"); });
  comm->barrier();
  resumed("new");
  EXPECT_EQ(steps_in("new").front().iteration, 5);
}

class HashTexts : public ::testing::Test {
 protected:
  static std::string error_in(const std::string& text) {
    return testing::error_of([&] { StepHashes::parse(text, "line"); });
  }
  TemporaryFolder folder;
};

TEST_F(HashTexts, AreReadAsTheyWereWritten) {
  const StepHashes step{.iteration = 7,
                        .loss = 0.1 + 0.2,
                        .loss_hash = 1,
                        .groups = {{"weights", {{"b", 2}, {"a\xff", 3}}}, {"states", {}}},
                        .is_of_end = true};
  const StepHashes read = StepHashes::parse(step.line(), "line");
  EXPECT_EQ(read.line(), step.line());
  EXPECT_EQ(read.loss, step.loss);
  EXPECT_EQ(read.groups.front().arrays, step.groups.front().arrays);
  EXPECT_TRUE(read.is_of_end);
  StepHashes infinite = step;
  infinite.loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(infinite.line(), HasSubstr("\"loss\":null"));
  EXPECT_FALSE(StepHashes::parse(infinite.line(), "line").loss);
}

TEST_F(HashTexts, AreRefusedInOneLineIfDamaged) {
  for (const std::string text :
       {"", "[]", "7", "{", R"({"iteration":0,"hashes":{}})", R"({"iteration":1.5,"hashes":{}})",
        R"({"iteration":1})", R"({"iteration":1,"hashes":7})",
        R"({"iteration":1,"hashes":{"loss":"12"}})",
        R"({"iteration":1,"hashes":{"weights":"0000000000000000"}})",
        R"({"iteration":1,"hashes":{"iteration":"0000000000000000"}})",
        R"({"iteration":1,"hashes":{"weights":"0000000000000000"},"weights":{"a":1}})",
        R"({"iteration":1,"hashes":{"weights":"0000000000000000"},"weights":{}})"}) {
    const std::string error = error_in(text);
    EXPECT_THAT(error, ::testing::StartsWith("line")) << text;
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << text;
  }
}

TEST_F(HashTexts, AreCutAtALine) {
  const std::filesystem::path file = folder / "hashes";
  const auto write = [&](std::int64_t from, std::int64_t to) {
    HashFile hashes(file, from, false);
    for (std::int64_t i = from + 1; i <= to; ++i) hashes.add({.iteration = i, .loss = 1.0 / i});
    hashes.flush(file);
    return read_file(file);
  };
  const std::string whole = write(0, 9);
  EXPECT_TRUE(is_hash_file(file));
  for (const std::int64_t from : {3, 9, 0})
    for (const std::size_t cut : {whole.size(), whole.size() - 1}) {
      write_file(file, whole.substr(0, cut) + "{\"iter");
      if (cut < whole.size() && from == 9) continue;
      EXPECT_EQ(write(from, 9), whole);
    }
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    write_file(file, whole.substr(0, cut));
    EXPECT_EQ(write(0, 9), whole) << cut;
  }
  write_file(file, whole + "7\n");
  expect_error(ErrorKind::data, {"line 11: expected the hashes of an iteration after 9"},
               [&] { write(9, 9); });
}

}  // namespace
}  // namespace tasuki
