// The checkpoint of the best value: which it is, and what a run knows of it that goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "models/mlp.hpp"
#include "saving/checkpoint.hpp"
#include "saving/output_layout.hpp"
#include "saving/retention.hpp"
#include "scripted_updater.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/checkpoint.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;
using testing::transfer;

class BestCheckpoint : public ::testing::Test {
 protected:
  BestCheckpoint() {
    model_.initialize(0);
    optimizer_->setup(model_);
  }
  // One value per iteration, one iteration per epoch.
  std::unique_ptr<Trainer> trainer(const std::vector<double>& values, const std::string& out,
                                   const std::string& key = "loss", int n_retains = 1) {
    const auto script = [values, key](std::int64_t iteration, Observation& observation) {
      observation.set(key, values.at(static_cast<std::size_t>(iteration - 1)));
    };
    auto made =
        std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(1, script, optimizer_.get()),
                                  stop_after(static_cast<double>(values.size())), folder / out);
    made->extend(checkpoint_of(key, n_retains));
    return made;
  }
  // The newest one is of the last iteration.
  static std::unique_ptr<Checkpoint> checkpoint_of(const std::string& key, int n_retains = 1) {
    return std::make_unique<Checkpoint>(
        Checkpoint::Settings{.n_retains = n_retains, .keep_best = key}, at({}, Unit::iteration));
  }
  // A run whose values get better all the time; all checkpoints are there, and the newest is cut.
  void run_and_damage_the_newest() {
    trainer({3, 2, 1}, "out", "loss", 9)->run();
    ASSERT_EQ(best_in("out"), 3);
    std::filesystem::resize_file(saved(3) / "state.npz", 100);
  }
  // A run that goes on from the checkpoint of this iteration.
  std::unique_ptr<Trainer> going_on_from(std::int64_t iteration,
                                         const std::vector<double>& values) {
    auto made = trainer(values, "out", "loss", 9);
    const CheckpointReader state(saved(iteration));
    made->serialize(Serializer::loader(&state, nullptr));
    made->note_saved(state.path());
    return made;
  }
  std::filesystem::path saved(std::int64_t iteration) const {
    return checkpoint_folder(folder / "out", {iteration, 1});
  }
  // The iteration that the best checkpoint is from.
  std::int64_t best_in(const std::string& out) const {
    const CheckpointReader saved(best_checkpoint(folder / out).value());
    return std::get<Tensor>(saved.read("updater/iteration")).data<std::int64_t>()[0];
  }

  TemporaryFolder folder;

 private:
  MLP model_{2, 2, 2};
  std::unique_ptr<Optimizer> optimizer_ = create_optimizer("sgd");
};

TEST_F(BestCheckpoint, ChoosesDirectionByKey) {
  for (const auto& [key, best] : std::map<std::string, std::int64_t>{
           {"validation/main/loss", 4}, {"validation/main/accuracy", 3}}) {
    trainer({3, 2, 4, 1, 3}, "out", key)->run();
    EXPECT_EQ(best_in("out"), best) << key;
  }
}

TEST_F(BestCheckpoint, KnowsTheExistingBestWhenResumed) {
  const std::vector<double> values{3, 1, 2, 2.5};
  const auto first = trainer({3, 1}, "out");
  first->run();
  const auto here = trainer(values, "out"), elsewhere = trainer(values, "other");
  for (Trainer* const going_on : {here.get(), elsewhere.get()}) {
    transfer(*first, *going_on, folder / "state");
    going_on->run();
  }
  EXPECT_EQ(best_in("out"), 2);
  EXPECT_EQ(best_in("other"), 3) << "without the file its value counts for nothing";
}

// It knows the best value up to there, and which checkpoint has it.
TEST_F(BestCheckpoint, NamesTheBestOfItsPastAfterFallingBack) {
  run_and_damage_the_newest();
  going_on_from(2, {3, 2, 5, 4})->run();
  EXPECT_EQ(best_in("out"), 2);
  going_on_from(1, {3, 3.5, 2.5})->run();
  EXPECT_EQ(best_checkpoint(folder / "out"), checkpoint_folder(folder / "out", {3, 2}));
}

TEST_F(BestCheckpoint, ForgetsDamagedCheckpoints) {
  run_and_damage_the_newest();
  const auto best = [&] { return best_checkpoint(folder / "out"); };
  std::vector<std::optional<std::filesystem::path>> seen;
  const auto run = going_on_from(2, {3, 2, 5, 4});
  std::filesystem::remove(saved(2) / "state.npz");
  run->extend(make_extension(
      "look", [&](Trainer&) { seen.push_back(best()); }, Extension::priority_writer));
  run->run();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen.front(), std::nullopt) << "a damaged checkpoint is named";
  EXPECT_EQ(best_in("out"), 4);
}

TEST_F(BestCheckpoint, IgnoresValuesThatCouldNotBeSaved) {
  const auto run = trainer({1, 2, 1.5, 1.7}, "out");
  const auto in_the_way = folder / "out/checkpoints";
  std::filesystem::create_directories(folder / "out");
  std::ofstream(in_the_way) << "a file where the folder should be";
  run->extend(make_extension(
                  "clear", [&](Trainer&) { std::filesystem::remove(in_the_way); },
                  Extension::priority_snapshot - 1),
              {.trigger = at({2}, Unit::iteration)});
  run->run();
  EXPECT_EQ(best_in("out"), 3);
}

TEST_F(BestCheckpoint, NamesUnobservedKey) {
  const auto run = trainer({1, 2}, "out", "loss");
  run->extend(checkpoint_of("lost"));
  EXPECT_THAT(error_of([&] { run->run(); }),
              HasSubstr("the best checkpoint watches \"lost\", which was not observed up to "
                        "iteration 1 (there are: loss)"));
}

TEST_F(BestCheckpoint, NamesKeysObservedLater) {
  struct Later : Extension {
    std::string default_name() const override { return "validation"; }
    std::unique_ptr<Trigger> default_trigger() const override { return at({2}, Unit::iteration); }
    bool may_observe(const std::string& key, const std::string& name, bool) const override {
      return key.starts_with(name + "/");
    }
    void run(Trainer&) override {}
  };
  const auto run = trainer({1, 2}, "out", "loss");
  run->extend(std::make_unique<Later>());
  run->extend(checkpoint_of("validaton/loss"));
  EXPECT_THAT(error_of([&] { run->run(); }), HasSubstr("(there are: loss, validation/...)"));
}

}  // namespace
}  // namespace tasuki
