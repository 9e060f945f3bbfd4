// The snapshot of the best value: which it is, and what a run knows of it that goes on.
#include "tasuki/training/extensions/keep_best.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.hpp"
#include "scripted_updater.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/training/extensions/snapshot.hpp"
#include "tasuki/training/snapshots/npz.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;
using testing::transfer;

class KeepBest : public ::testing::Test {
 protected:
  KeepBest() {
    model_.initialize(0);
    optimizer_->setup(model_);
  }
  // A value an iteration, one iteration an epoch.
  std::unique_ptr<Trainer> trainer(const std::vector<double>& values, const std::string& out,
                                   const std::string& key = "loss") {
    const auto script = [values, key](std::int64_t iteration, Observation& observation) {
      observation.set(key, values.at(static_cast<std::size_t>(iteration - 1)));
    };
    auto made =
        std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(1, script, optimizer_.get()),
                                  stop_after(static_cast<double>(values.size())), folder / out);
    made->extend(keep_best(key));
    return made;
  }
  // The iteration that snapshot_best is from.
  std::int64_t best_in(const std::string& out) const {
    const NpzFile file(folder / out / best_snapshot_name);
    return std::get<Tensor>(file.read("updater/iteration")).data<std::int64_t>()[0];
  }

  TemporaryFolder folder;

 private:
  MLP model_{2, 2, 2};
  std::unique_ptr<Optimizer> optimizer_ = create_optimizer("sgd");
};

TEST_F(KeepBest, WhichValueIsTheBestIsToldByTheKey) {
  for (const auto& [key, best] : std::map<std::string, std::int64_t>{
           {"validation/main/loss", 4}, {"validation/main/accuracy", 3}}) {
    trainer({3, 2, 4, 1, 3}, "out", key)->run();
    EXPECT_EQ(best_in("out"), best) << key;
  }
}

TEST_F(KeepBest, ARunThatGoesOnKnowsTheBestValueOfTheFileThatIsThere) {
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

TEST_F(KeepBest, AValueWhoseSnapshotCannotBeWrittenIsNotTheBest) {
  const auto run = trainer({1, 2, 3}, "out");
  const auto in_the_way = folder / "out" / best_snapshot_name;
  // A folder of that name with something in it cannot be replaced.
  std::filesystem::create_directories(in_the_way / "full");
  run->extend(make_extension(
                  "clear", [&](Trainer&) { std::filesystem::remove_all(in_the_way); },
                  Extension::priority_snapshot - 1),
              {.trigger = at({1}, Unit::iteration)});
  run->run();
  EXPECT_EQ(best_in("out"), 2);
}

TEST_F(KeepBest, AKeyThatNothingObservesIsNamed) {
  const auto run = trainer({1, 2}, "out", "loss");
  run->extend(keep_best("lost"));
  EXPECT_THAT(error_of([&] { run->run(); }),
              HasSubstr("the best snapshot watches \"lost\", which was not observed up to "
                        "iteration 1 (there are: loss)"));
}

}  // namespace
}  // namespace tasuki
