// tasuki-plot: what it draws in the terminal and with gnuplot, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class Plots : public ::testing::Test {
 protected:
  Plots() {
    write_log("one", R"([{"main/loss": 4, "main/accuracy": 0.25, "iteration": 10, "epoch": 1},
                         {"main/loss": 1, "main/accuracy": null, "iteration": 20, "epoch": 2}])");
    write_log("two",
              R"([{"main/loss": 3, "validation/main/loss": 2, "iteration": 10, "epoch": 1}])");
  }
  void write_log(const std::string& run, const std::string& text) {
    std::filesystem::create_directories(folder / run);
    write_file(folder / (run + "/log"), text);
  }
  Finished plot(Words words) const {
    words.insert(words.begin(), PLOT);
    return run_program(words);
  }
  std::string drawn(const Words& words) const {
    const Finished made = plot(words);
    EXPECT_EQ(made.exit_code, 0) << made.all();
    return made.out;
  }
  void expect_refusal(const Words& words, const std::string& line, ErrorKind kind) const {
    const Finished made = plot(words);
    EXPECT_EQ(made.exit_code, static_cast<int>(kind)) << made.all();
    EXPECT_EQ(count_of(made.err, line), 1) << made.err;
    EXPECT_EQ(count_of(made.err, "\n"), 1) << made.err;
    EXPECT_EQ(made.out, "");
  }

  TemporaryFolder folder;
  const std::string one = folder / "one", two = folder / "two";
};

TEST_F(Plots, AreDrawnInTheTerminal) {
  EXPECT_EQ(
      drawn({one, "-y", "main/loss"}),
      "loss\n"
      "         4 |a\n" +
          [] {
            std::string rows;
            for (int i = 0; i < 14; ++i) rows += "           |\n";
            return rows;
          }() +
          "         1 |" + std::string(66, ' ') + "a\n           +" + std::string(67, '-') +
          "\n            10" + std::string(53, ' ') +
          "iteration 20\n"
          "  a  one (last 1)\n");
  const std::string both = drawn({one, two + "/log"});
  for (const char* const title :
       {"  a  one main/loss (last 1)\n", "  b  two main/loss (last 3)\n",
        "  c  two validation/main/loss (last 2)\n", "\naccuracy\n", "  a  one (last 0.25)\n"})
    EXPECT_EQ(count_of(both, title), 1) << both;
  EXPECT_THAT(drawn({one, "-y", "main/loss", "-x", "epoch"}), HasSubstr("epoch 2\n"));
}

TEST_F(Plots, TellRunsOfOneNameApart) {
  std::filesystem::create_directories(folder / "other");
  std::filesystem::copy(one, folder / "other/one", std::filesystem::copy_options::recursive);
  const std::string other = folder / "other/one";
  const std::string both = drawn({one, other, "-y", "main/loss"});
  EXPECT_EQ(count_of(both, "  a  " + one + " (last 1)\n"), 1) << both;
  EXPECT_EQ(count_of(both, "  b  " + other + " (last 1)\n"), 1) << both;
}

TEST_F(Plots, AreImages) {
  const std::string svg = folder / "new/curves.svg", png = folder / "curves.png";
  const Finished made = plot({one, two, "-o", svg});
  if (made.exit_code == static_cast<int>(ErrorKind::unavailable)) {
    EXPECT_THAT(made.err,
                HasSubstr("gnuplot is not installed; install Debian's package gnuplot-nox"));
    GTEST_SKIP() << "gnuplot is not installed";
  }
  ASSERT_EQ(made.exit_code, 0) << made.all();
  EXPECT_EQ(made.all(), "");
  const std::string image = read_file(svg);
  for (const char* const text :
       {"one main/loss", "two validation/main/loss", "iteration", "accuracy"})
    EXPECT_GE(count_of(image, text), 1) << text;
  EXPECT_THAT(drawn({one, "--text", "-o", png}), HasSubstr("\naccuracy\n"));
  EXPECT_THAT(read_file(png), StartsWith("\x89PNG"));
}

// What a name says is no command.
TEST_F(Plots, ShowStrangeNames) {
  const std::string name = "a'`touch x`\"_^{b}\\n";
  write_log(name, R"([{"main/loss": 4, "iteration": 10}])");
  EXPECT_THAT(drawn({folder / name}), HasSubstr("  a  " + name + " (last 4)\n"));
  const Finished made = plot({folder / name, "-o", folder / "x.svg"});
  if (made.exit_code != static_cast<int>(ErrorKind::unavailable)) {
    EXPECT_EQ(made.exit_code, 0) << made.all();
    EXPECT_GE(count_of(read_file(folder / "x.svg"), "_^{b}\\n"), 1);
  }
  EXPECT_FALSE(std::filesystem::exists("x"));
}

TEST_F(Plots, RefuseWrongInputInOneLine) {
  expect_refusal({}, "expected the output folders of runs before the flags, found none",
                 ErrorKind::usage);
  expect_refusal({folder / "none"}, "cannot read ", ErrorKind::missing);
  expect_refusal({one, "-o", "a.gif"}, "--out a.gif: expected a name that ends in .svg or .png",
                 ErrorKind::usage);
  expect_refusal(
      {one, "-y", "main/los"},
      "--keys: no log has 'main/los'; there are epoch, iteration, main/accuracy, main/loss",
      ErrorKind::usage);
  for (const char* const keys : {",", "main/loss,,main/accuracy", "main/loss,"})
    expect_refusal({one, "-y", keys}, "--keys: expected keys of the log", ErrorKind::usage);
  expect_refusal({one, "-x", "time"}, "--x-axis: expected ", ErrorKind::usage);
  expect_refusal({one, "-x", "elapsed_time"}, "no entry of the logs has the key elapsed_time",
                 ErrorKind::data);
  for (const std::string text : {"{}", "[1]", "[{", ""}) {
    write_log("bad", text);
    expect_refusal({folder / "bad"}, "bad/log", ErrorKind::data);
  }
  write_log("bad", R"([{"x/y": 1, "iteration": 1}])");
  expect_refusal({folder / "bad"}, "choose keys with --keys from iteration, x/y", ErrorKind::usage);
  const Finished without =
      run_program({"env", "PATH=/nonexistent", PLOT, one, "-o", folder / "a.svg"});
  EXPECT_EQ(without.exit_code, static_cast<int>(ErrorKind::unavailable)) << without.all();
  EXPECT_EQ(count_of(without.err, "install Debian's package gnuplot-nox"), 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.svg"));
}

}  // namespace
}  // namespace tasuki::testing
