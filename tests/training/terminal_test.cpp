// What training prints on terminals of any width, and where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "dataset/iterators/share_iterator.hpp"
#include "printed.hpp"
#include "scripted_updater.hpp"
#include "small_run.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/generic_evaluator.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/print_progress.hpp"
#include "training/extensions/print_report.hpp"
#include "training/extensions/print_steps.hpp"
#include "training/extensions/progress_bar.hpp"
#include "training/extensions/table_layout.hpp"

namespace tasuki {
namespace {

using testing::contents_of;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::PseudoTerminal;
using testing::ScriptedUpdater;
using testing::synthetic;
using testing::TemporaryFolder;

const std::vector<std::string> columns = {
    "epoch",         "main/loss",    "validation/main/loss",
    "main/accuracy", "elapsed_time", "validation/main/accuracy"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TableLayout, FitsNarrowLines) {
  const nlohmann::ordered_json entry = {{"epoch", 3},
                                        {"main/loss", 0.123456789},
                                        {"validation/main/loss", 1.23456789e-5},
                                        {"main/accuracy", nullptr},
                                        {"elapsed_time", 12345.678},
                                        {"validation/main/accuracy", 1.0}};
  const TableLayout at_79(columns, 79);
  EXPECT_EQ(at_79.header(),
            "                                                            validation\n"
            "                        validation  main/       elapsed_    /main/\n"
            "epoch       main/loss   /main/loss  accuracy    time        accuracy");
  EXPECT_EQ(at_79.row(entry), "3           0.123457    1.2346e-05  nan         12345.7     1");
  EXPECT_EQ(TableLayout(columns, 41).row(entry), "3      0.1235 1e-05  nan    12346  1");
  EXPECT_EQ(TableLayout(columns, 39).row(entry), "3      0.1235 1e-05  nan    12346")
      << "the last column has no room";
  for (std::size_t width = 1; width < 130; ++width) {
    const TableLayout layout(columns, width);
    for (const std::string& line : lines_of(layout.header())) EXPECT_LE(line.size(), width);
    EXPECT_LE(layout.row(entry).size(), width);
  }
  EXPECT_EQ(TableLayout(columns, 99), TableLayout(columns, 200));
}

TEST(ProgressBarLines, FitNarrowTerminals) {
  const ProgressBar::Progress progress{.iteration = 300,
                                       .epoch_detail = 0.5,
                                       .length = {20, std::nullopt},
                                       .steps_per_epoch = 600,
                                       .iterations_per_second = 1.0 / 300};
  EXPECT_EQ(ProgressBar::draw(progress, 39),
            "     total [..................]   2.50%\n"
            "this epoch [#########.........]  50.00%\n"
            "       300 iter, 0 epoch / 20 epochs\n"
            " 0.0033333 iters/sec. To finish: 40 day\n");
  for (std::size_t width = 1; width < 120; ++width) {
    const auto lines = lines_of(ProgressBar::draw(progress, width));
    ASSERT_EQ(lines.size(), 4u);
    for (const std::string& line : lines) EXPECT_LE(line.size(), width);
  }
}

// A terminal that moves its cursor as lines come, and wraps those that are too long.
class Screen {
 public:
  explicit Screen(std::size_t columns) : columns_(columns) {}
  void write(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text.compare(i, 3, "\033[J") == 0) {
        if (row_ < rows_.size()) rows_[row_].resize(column_);
        rows_.resize(std::min(rows_.size(), column_ > 0 ? row_ + 1 : row_));
        i += 2;
      } else if (text.compare(i, 4, "\033[4A") == 0) {
        row_ -= std::min<std::size_t>(row_, 4);
        i += 3;
      } else if (text[i] == '\n') {
        ++row_;
        column_ = 0;
      } else if (text[i] != '\r') {
        if (column_ == columns_) ++row_, column_ = 0, ++wraps;
        if (rows_.size() <= row_) rows_.resize(row_ + 1);
        rows_[row_].resize(std::max(rows_[row_].size(), column_ + 1), ' ');
        rows_[row_][column_++] = text[i];
      }
    }
  }
  const std::vector<std::string>& rows() const { return rows_; }
  int wraps = 0;

 private:
  std::size_t columns_, row_ = 0, column_ = 0;
  std::vector<std::string> rows_;
};

// Three epochs with table and bar.
std::unique_ptr<Trainer> trainer_on(std::FILE* out, const std::filesystem::path& folder) {
  auto trainer = std::make_unique<Trainer>(
      std::make_unique<ScriptedUpdater>(
          4, [](std::int64_t, Observation& seen) { seen.add_sum("main/loss", 2, 4); }),
      stop_after(3), folder);
  trainer->extend(std::make_unique<LogReport>());
  trainer->extend(std::make_unique<PrintReport>(columns, "LogReport", out));
  trainer->extend(std::make_unique<ProgressBar>(0.0, out));
  return trainer;
}

TEST(Terminal, WrapsNoLineAndCleansUp) {
  const TemporaryFolder folder;
  for (const int width : {20, 40, 60, 80, 100, 200}) {
    const PseudoTerminal terminal;
    terminal.resize(width);
    trainer_on(terminal.out, folder / "out")->run();
    Screen screen(static_cast<std::size_t>(width));
    screen.write(terminal.read_all());
    EXPECT_EQ(screen.wraps, 0) << width;
    const auto header =
        lines_of(TableLayout(columns, static_cast<std::size_t>(width) - 1).header());
    ASSERT_EQ(screen.rows().size(), header.size() + 3) << width;
    for (int epoch = 1; epoch <= 3; ++epoch)
      EXPECT_THAT(screen.rows()[header.size() + static_cast<std::size_t>(epoch) - 1],
                  ::testing::StartsWith(std::to_string(epoch) + ' '))
          << width;
  }
}

TEST(Terminal, FollowsWidthChangesAtOnce) {
  const TemporaryFolder folder;
  const PseudoTerminal terminal;
  terminal.resize(200);
  const auto trainer = trainer_on(terminal.out, folder / "out");
  trainer->extend(make_extension("resize", [&](Trainer& running) {
    if (running.updater().iteration() == 6) terminal.resize(50);
  }));
  trainer->run();
  const std::string text = terminal.read_all();
  EXPECT_THAT(text, HasSubstr(TableLayout(columns, 199).header()));
  // Half of all steps in a bar of 49 - 21 characters.
  const auto resized =
      text.find("     total [" + std::string(14, '#') + std::string(14, '.') + ']');
  ASSERT_NE(resized, std::string::npos) << text;
  Screen after(50);
  after.write(text.substr(resized));
  EXPECT_EQ(after.wraps, 0);
  EXPECT_EQ(after.rows().size(), lines_of(TableLayout(columns, 49).header()).size() + 2)
      << "the header once more, and rows of the epochs 2 and 3";
}

TEST(Terminal, UsesColumnsWithoutASize) {
  const PseudoTerminal terminal;
  setenv("COLUMNS", "70", 1);
  EXPECT_EQ(line_width(terminal.out), 69u);
  setenv("COLUMNS", "none", 1);
  EXPECT_EQ(line_width(terminal.out), 79u);
  unsetenv("COLUMNS");
  terminal.resize(132);
  EXPECT_EQ(line_width(terminal.out), 131u);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  EXPECT_EQ(line_width(file.get()), unlimited_width);
}

TEST(Terminal, PrintsOnlyLinesWhenDumbOrUnknown) {
  const TemporaryFolder folder;
  for (const char* const kind : {"dumb", "", static_cast<const char*>(nullptr)}) {
    const PseudoTerminal terminal;
    terminal.resize(80);
    if (kind == nullptr)
      unsetenv("TERM");
    else
      setenv("TERM", kind, 1);
    const auto trainer = trainer_on(terminal.out, folder / "out");
    trainer->extend(std::make_unique<PrintSteps>(4, "main/loss", terminal.out));
    trainer->extend(std::make_unique<PrintProgress>(1e-9, 4, terminal.out));
    trainer->run();
    const std::string text = terminal.read_all();
    EXPECT_EQ(text.find('\033'), std::string::npos) << text;
    EXPECT_THAT(text, HasSubstr("\n3 "));
    EXPECT_THAT(text, HasSubstr("step 12, loss = 0.50"));
    EXPECT_THAT(text, HasSubstr("iteration 1, epoch 0.25"))
        << "what is printed in place of a progress bar";
    for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(WrapLines, BreaksAtSpacesAndIndentsTheRest) {
  EXPECT_EQ(wrap_lines("one two three four\n  five  six seven\n", 11),
            "one two\n  three\n  four\n  five  six\n  seven\n");
  EXPECT_EQ(wrap_lines("/a/long/path/without/blanks and", 10),
            "/a/long/path/without/blanks\n  and");
  EXPECT_EQ(wrap_lines("\u00e4\u00f6\u00fc \u00e4\u00f6\u00fc", 7),
            "\u00e4\u00f6\u00fc \u00e4\u00f6\u00fc");
  EXPECT_EQ(wrap_lines("12345   ", 6), "12345");
  EXPECT_EQ(wrap_lines("12345 \n\n", 6), "12345 \n\n");
  EXPECT_EQ(wrap_lines("", 6), "");
  const std::string as_it_is = "  rank   host\n   0     a\n";
  EXPECT_EQ(wrap_lines(as_it_is, unlimited_width), as_it_is);
}

// Steps of 20 ms, ten an epoch; the table's rows count as signs of life.
TEST(PrintProgress, PrintsWithinAnEpoch) {
  const TemporaryFolder folder;
  const auto lines_with = [&](double interval, bool with_table) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
    Trainer trainer(std::make_unique<ScriptedUpdater>(10,
                                                      [](std::int64_t, Observation& seen) {
                                                        seen.add_sum("main/loss", 5, 4);
                                                        std::this_thread::sleep_for(
                                                            std::chrono::milliseconds(20));
                                                      }),
                    stop_after(2), folder / "out");
    if (with_table) trainer.extend(std::make_unique<LogReport>(every(1, Unit::iteration)));
    trainer.extend(std::make_unique<PrintProgress>(interval, 40, out.get()));
    trainer.run();
    return lines_of(contents_of(out.get()));
  };
  const auto lines = lines_with(0.05, false);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_LE(lines.size(), 20u);
  for (const std::string& line : lines)
    EXPECT_THAT(line, MatchesRegex("iteration [0-9]+, epoch [0-9.]+ of 2, loss 1.25, "
                                   "[0-9.]+ examples/s"));
  EXPECT_EQ(lines_with(10, true).size(), 0u) << "rows are lines, too";
  EXPECT_EQ(lines_with(0, false).size(), 0u);
  EXPECT_EQ(lines_with(30, false).size(), 0u);
}

TEST(PrintProgress, IsSilentWhenOthersReport) {
  const TemporaryFolder folder;
  const auto lines_with = [&](const auto& extend) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
    Trainer trainer(
        std::make_unique<ScriptedUpdater>(
            4, [](std::int64_t, Observation& seen) { seen.add_sum("main/loss", 5, 4); }),
        stop_after(1), folder / "out");
    extend(trainer);
    trainer.extend(std::make_unique<PrintProgress>(1e-9, 4, out.get()));
    trainer.run();
    return lines_of(contents_of(out.get())).size();
  };
  EXPECT_EQ(lines_with([](Trainer&) {}), 4u);
  EXPECT_EQ(lines_with([](Trainer& trainer) {
              trainer.extend(std::make_unique<LogReport>(every(2, Unit::iteration)),
                             {.name = "rows"});
            }),
            2u);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> steps(std::tmpfile(), std::fclose);
  EXPECT_EQ(lines_with([&](Trainer& trainer) {
              trainer.extend(std::make_unique<PrintSteps>(1, "main/loss", steps.get()));
            }),
            0u);
}

TEST(PrintProgress, IsSilentOnATerminal) {
  const TemporaryFolder folder;
  const PseudoTerminal terminal;
  Trainer trainer(std::make_unique<ScriptedUpdater>(4), stop_after(1), folder / "out");
  trainer.extend(std::make_unique<GenericEvaluator>(
      create_serial_iterator(Share::whole(synthetic(3)), 1), [](const Batch&) { return Bytes(); },
      [](const std::vector<Bytes>&, Observation&) {}));
  trainer.extend(std::make_unique<PrintProgress>(1e-9, 4, terminal.out));
  trainer.run();
  EXPECT_EQ(terminal.read_all(), "");
}

}  // namespace
}  // namespace tasuki
