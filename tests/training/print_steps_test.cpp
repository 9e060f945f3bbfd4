// Loss and speed every few iterations.
#include "training/extensions/print_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "scripted_updater.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;

TEST(PrintSteps, MatchesTheDocumentedExample) {
  EXPECT_EQ(PrintSteps::text(10, 4.604, 1280, 10, 1.6663),
            "step 10, loss = 4.60 (768.2 examples/sec; 0.167 sec/batch)");
}

// Means over the examples since the line before; a last part that is too short has no line.
TEST(PrintSteps, CoversOnlyItsOwnIterations) {
  const TemporaryFolder folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
  Trainer trainer(
      std::make_unique<ScriptedUpdater>(4,
                                        [](std::int64_t iteration, Observation& observation) {
                                          const auto i = static_cast<double>(iteration);
                                          observation.add_sum("main/loss", 10 * i * i,
                                                              iteration);  // 10 i over i examples
                                          observation.add_sum("main/accuracy", 1, 2);
                                        }),
      stop_after(100, 5), folder / "out");
  trainer.extend(std::make_unique<PrintSteps>(2, "main/loss", out.get()));
  trainer.run();
  std::string text(static_cast<std::size_t>(std::ftell(out.get())), '\0');
  std::rewind(out.get());
  ASSERT_EQ(std::fread(text.data(), 1, text.size(), out.get()), text.size());
  EXPECT_THAT(text, ::testing::StartsWith("step 2, loss = 16.67 ("));  // (10 + 40) / 3
  EXPECT_THAT(text, HasSubstr("\nstep 4, loss = 35.71 ("));            // (90 + 160) / 7
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
}

TEST(PrintSteps, OmitsMissingValues) {
  const TemporaryFolder folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
  Trainer trainer(std::make_unique<ScriptedUpdater>(4), stop_after(1), folder / "out");
  trainer.extend(std::make_unique<PrintSteps>(1, "main/loss", out.get()));
  trainer.run();
  EXPECT_EQ(std::ftell(out.get()), 0);
  EXPECT_THAT(error_of([] { PrintSteps(0); }),
              HasSubstr("expected an interval of at least 1, found 0"));
}

}  // namespace
}  // namespace tasuki
