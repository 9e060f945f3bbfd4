// The file of --log-steps: columns, rows, and the files that it does not go on in.
#include "training/step_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/line_reader.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

StepRow row_of(std::int64_t iteration, const std::map<std::string, double>& values) {
  StepRow row{.iteration = iteration, .epoch = 0.5, .elapsed_time = 2, .seconds = 0.25, .lr = 0.1};
  for (const auto& [key, value] : values) row.seen.add_sum(key, value, 1);
  return row;
}

class StepTables : public ::testing::Test {
 protected:
  static KeptSteps steps_in(std::string_view text, std::int64_t iteration, StepFormat format) {
    LineReader lines(text);
    return steps_up_to(iteration, lines, format, "steps");
  }
  static std::string refusal(std::string_view text, StepFormat format) {
    return error_of([&] { steps_in(text, 100, format); });
  }
  testing::TemporaryFolder folder;
  const std::filesystem::path csv = folder / "a.csv", lines = folder / "a.jsonl";
};

TEST_F(StepTables, HaveARowForEachStep) {
  StepTable table(csv, StepFormat::csv, 0);
  table.add(row_of(1, {{"main/loss", 3}}));
  EXPECT_EQ(read_file(csv), "");
  table.flush();
  table.add(row_of(2, {{"main/loss", std::nan("")}, {"a \"b\", c", 1}, {"epoch", 9}}));
  table.add(row_of(3, {}));
  table.flush();
  EXPECT_EQ(read_file(csv),
            "iteration,epoch,elapsed_time,seconds,lr,main/loss,\"a \"\"b\"\", c\"\n"
            "1,0.5,2,0.25,0.1,3,\n2,0.5,2,0.25,0.1,nan,1\n3,0.5,2,0.25,0.1,,\n");
}

TEST_F(StepTables, AreJsonLines) {
  StepTable table(lines, StepFormat::json_lines, 0);
  table.add(row_of(1, {{"main/loss", 3}}));
  table.add(row_of(2, {{"main/loss", std::nan("")}}));
  table.flush();
  EXPECT_EQ(read_file(lines),
            "{\"iteration\":1,\"epoch\":0.5,\"elapsed_time\":2.0,\"seconds\":0.25,\"lr\":0.1,"
            "\"main/loss\":3.0}\n"
            "{\"iteration\":2,\"epoch\":0.5,\"elapsed_time\":2.0,\"seconds\":0.25,\"lr\":0.1,"
            "\"main/loss\":null}\n");
}

TEST_F(StepTables, GoOnBehindAnIteration) {
  for (const StepFormat format : {StepFormat::csv, StepFormat::json_lines}) {
    const auto& file = format == StepFormat::csv ? csv : lines;
    const auto write = [&](std::int64_t from, std::int64_t to) {
      StepTable table(file, format, from);
      for (std::int64_t i = from + 1; i <= to; ++i)
        table.add(row_of(i, {{"a", static_cast<double>(i)}}));
      table.flush();
      return read_file(file);
    };
    const std::string whole = write(0, 9);
    for (const std::int64_t from : {3, 9, 0}) {
      write_file(file, whole + "1");  // a process was killed while it wrote
      EXPECT_EQ(write(from, 9), whole);
    }
  }
}

// What follows the last kept row need not even be read.
TEST_F(StepTables, GoOnInAFileOfAnySize) {
  const auto write = [&](std::int64_t from, std::int64_t to) {
    StepTable table(csv, StepFormat::csv, from);
    for (std::int64_t i = from + 1; i <= to; ++i) table.add(row_of(i, {{"a", 1}}));
    table.flush();
    return read_file(csv);
  };
  const std::string whole = write(0, 4);
  std::filesystem::resize_file(csv, std::uintmax_t{3} << 30);  // a hole
  EXPECT_EQ(write(3, 4), whole);
}

TEST_F(StepTables, AreMadeAnewWhereTheyWereRemoved) {
  StepTable table(csv, StepFormat::csv, 0);
  table.add(row_of(1, {{"a", 1}}));
  table.flush();
  std::filesystem::remove(csv);
  table.add(row_of(2, {{"a", 2}, {"b", 3}}));
  table.flush();
  EXPECT_EQ(read_file(csv), "iteration,epoch,elapsed_time,seconds,lr,a,b\n2,0.5,2,0.25,0.1,2,3\n");
  write_file(csv, "another program's");
  table.add(row_of(3, {{"a", 2}}));
  EXPECT_EQ(table.waiting(), std::ssize(std::string("3,0.5,2,0.25,0.1,2,\n")));
  EXPECT_THAT(error_of([&] { table.flush(); }), HasSubstr("a.csv"));
  EXPECT_EQ(read_file(csv), "another program's");
}

TEST_F(StepTables, RefuseOtherFilesInOneLine) {
  const std::string header = "iteration,epoch,elapsed_time,seconds,a\n";
  for (const std::string text :
       {"x,y\n1,2\n", "iteration,epoch\n", "iteration,epoch,elapsed_time,secondsx\n",
        "iteration,epoch,elapsed_time,secondsx", "iteration,x", "x", "\n", "1,2\n"})
    EXPECT_THAT(refusal(text, StepFormat::csv), HasSubstr("steps, line 1: expected "));
  for (const std::string row : {"x", "", "0,1", "-1,2", "7", "7x,1", "99999999999999999999,1"})
    EXPECT_THAT(refusal(header + row + '\n', StepFormat::csv),
                HasSubstr("steps, line 2: expected "));
  EXPECT_THAT(refusal(header + "2,1\n2,1\n", StepFormat::csv),
              HasSubstr("line 3: expected the row of an iteration after 2, found '2,1'"));
  for (const std::string text :
       {"[]\n", "{\"iteration\": 1,\"a\":1}\n", "{\"iteration\":1}\n", "{\"iteration\":1,\"a\":1\n",
        "{\"a\":1}\n", "{\"iteration\"x", "another program's"})
    EXPECT_THAT(refusal(text, StepFormat::json_lines), HasSubstr("steps, line 1: expected "));
  const std::string message = refusal("\x1b[2J" + std::string(200, 'x') + '\n', StepFormat::csv);
  EXPECT_EQ(message.find('\x1b'), message.npos);
  EXPECT_LT(message.size(), 300U);

  EXPECT_EQ(steps_in("", 5, StepFormat::csv).bytes, 0);
  const KeptSteps kept = steps_in(header + "5,1\n6,1\n7", 5, StepFormat::csv);
  EXPECT_EQ(kept.bytes, std::ssize(header) + 4);
  EXPECT_THAT(kept.columns, ElementsAre("iteration", "epoch", "elapsed_time", "seconds", "a"));
}

// As if nothing had been written.
TEST_F(StepTables, BeginAnewWhereTheirFirstLineWasCut) {
  const std::string header = "iteration,epoch,elapsed_time,seconds,lr,a";
  for (std::size_t bytes = 0; bytes <= header.size(); ++bytes)
    EXPECT_EQ(steps_in(header.substr(0, bytes), 5, StepFormat::csv).bytes, 0);
  write_file(csv, header);
  StepTable table(csv, StepFormat::csv, 5);
  table.add(row_of(6, {{"b", 1}}));
  table.flush();
  EXPECT_EQ(read_file(csv), "iteration,epoch,elapsed_time,seconds,lr,b\n6,0.5,2,0.25,0.1,1\n");
  const std::string row = "{\"iteration\":1,\"epoch\":0.5}";
  for (std::size_t bytes = 0; bytes <= row.size(); ++bytes)
    EXPECT_EQ(steps_in(row.substr(0, bytes), 5, StepFormat::json_lines).bytes, 0);
}

TEST_F(StepTables, AreTheirRunsOwn) {
  for (const StepFormat format : {StepFormat::csv, StepFormat::json_lines}) {
    const auto& file = format == StepFormat::csv ? csv : lines;
    const auto write = [&](double value) {
      StepTable table(file, format, 0);
      for (std::int64_t i = 1; i <= 3; ++i) table.add(row_of(i, {{"a", value}}));
      EXPECT_EQ(table.written().iteration, 0);
      table.flush();
      table.add(row_of(4, {{"a", value}, {"b", 2}}));
      return table.written();
    };
    const StepMark mark = write(1);
    EXPECT_EQ(mark.iteration, 3);
    const std::string own = read_file(file);
    const auto refusal_of = [&](const std::string& text, const StepMark& expected) {
      write_file(file, text);
      return error_of([&] { const StepTable table(file, format, 4, expected); });
    };
    // Also where columns have come later, and where nothing is left.
    {
      StepTable table(file, format, 3, mark);
      table.add(row_of(4, {{"b", 2}}));
      table.flush();
    }
    for (const std::string& text : {own, read_file(file), std::string()})
      EXPECT_EQ(refusal_of(text, mark), "(nothing thrown)");
    const std::string cut = own.substr(0, own.find_last_of('\n', own.size() - 2) + 1);
    write_file(file, "");
    EXPECT_NE(write(5).hash, mark.hash);
    const std::string later = format == StepFormat::csv
                                  ? own.substr(0, own.find('\n') + 1) + "9,0.5\n"
                                  : "{\"iteration\":9,\"a\":1}\n";
    for (const std::string& text : {cut, read_file(file), later}) {
      EXPECT_THAT(refusal_of(text, mark),
                  HasSubstr("it lacks the row of iteration 3 that this run"));
      EXPECT_EQ(read_file(file), text);
    }
  }
}

TEST_F(StepTables, AreNamedByTheirFormat) {
  EXPECT_EQ(step_format_of("a.b.csv"), StepFormat::csv);
  EXPECT_EQ(step_format_of("x/a.jsonl"), StepFormat::json_lines);
  for (const char* const name : {"a", "a.json", "csv", ".csv", "a.CSV", "a.csv/"})
    EXPECT_FALSE(step_format_of(name).has_value()) << name;
}

}  // namespace
}  // namespace tasuki
