// --help: a screen of flags, all of them, or those that a word finds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "training_flags_program.hpp"

namespace tasuki::testing {
namespace {

using program::OnScreen;
using program::Option;
using program::Options;
using Request = Options::Request;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A training program that adds a flag, in the order of TrainingProgram.
struct OwnProgram {
  OwnProgram() {
    options.group("Program");
    options.add("unit,u", unit, {1, 65536}, "N", "units of each hidden layer; more learn more");
    add_training_flags(options, settings);
  }
  Request parse(const std::vector<std::string>& arguments) { return options.parse(arguments); }
  std::string help(const std::vector<std::string>& arguments) {
    EXPECT_EQ(parse(arguments), Request::help);
    return options.text(Request::help);
  }

  program::TrainingSettings settings;
  std::int64_t unit = 1000;
  Options options{"train_test", "A program.", "mpirun -np 4 train_test"};
};

std::string help_of(const std::vector<std::string>& arguments) {
  return OwnProgram().help(arguments);
}

std::string help_error_of(const std::vector<std::string>& arguments) {
  return usage_error_of([&] { OwnProgram().parse(arguments); });
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(Help, FitsOwnAndCommonFlagsOnAScreen) {
  const std::string screen = help_of({"--help"});
  EXPECT_LE(std::ranges::count(screen, '\n'), 40) << screen;
  EXPECT_THAT(screen, StartsWith("train_test: A program.\n\nusage: train_test [flags]\n"
                                 "       mpirun -np 4 train_test\n\nProgram:\n"
                                 "  -u, --unit N                units of each hidden layer "
                                 "(default: 1000)\n\nCommon flags:\n"));
  for (const char* flag :
       {"-b, --batchsize N ", "-e, --epoch N ", "-r, --resume PATH ", "    --data DIR ",
        "    --optimizer NAME ", "-l, --lr X ", "    --communicator NAME ", "-g, --gpu [N] ",
        "    --threads N ", "-o, --out DIR ", "    --checkpoint-every PERIOD "})
    EXPECT_EQ(count_of(screen, std::string("\n  ") + flag), 1) << flag << screen;
  EXPECT_THAT(screen, Not(HasSubstr("--bucket-mb")));
  EXPECT_THAT(screen, Not(HasSubstr(" ...\n"))) << "a common flag needs a summary that has room";
  EXPECT_THAT(screen,
              AllOf(HasSubstr("--help all"), HasSubstr("--help WORD"),
                    HasSubstr("Program, Run, Data, Optimizer,"), EndsWith("Settings and help)\n")));
  EXPECT_EQ(help_of({"-h"}), screen);
}

TEST(Help, ShowsOneScreenBeforeAnotherFlag) {
  const std::string screen = help_of({"--help"});
  EXPECT_EQ(help_of({"--help", "--gpu"}), screen);
  EXPECT_EQ(help_of({"-h", "-g"}), screen);
  EXPECT_EQ(help_of({"--help", "all", "--help"}), screen) << "the last one counts";
  EXPECT_EQ(help_of({"--help=optimizer", "--help"}), screen);
}

TEST(Help, ShowsEveryFlagInFullWithAll) {
  OwnProgram program;
  const std::string all = program.help({"--help", "all"});
  EXPECT_THAT(all, HasSubstr("mpirun -np 4 train_test"));
  for (const Option& option : program.options.all())
    EXPECT_THAT(all, HasSubstr("--" + option.name)) << option.name;
  for (const char* flag : {"--help [WORD]", "--version", "--config FILE", "--print-config"})
    EXPECT_THAT(all, HasSubstr(flag));
  for (const char* group : {"Program:", "Run:", "Data:", "Optimizer:", "Communication and devices:",
                            "Output:", "Settings and help:"})
    EXPECT_EQ(count_of(all, std::string("\n\n") + group + '\n'), 1) << group << all;
  EXPECT_THAT(all, HasSubstr("units of each hidden layer; more learn more\n"));
  for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    EXPECT_LT(end - begin, 80U) << all.substr(begin, end - begin);
  for (const std::vector<std::string>& way :
       {std::vector<std::string>{"--help=all"}, {"-h", "all"}, {"-hall"}, {"--help", "ALL"}})
    EXPECT_EQ(help_of(way), all) << way[0];
}

TEST(Help, DefaultsAreValidValues) {
  const OwnProgram program;
  for (const Option& option : program.options.all()) {
    OwnProgram other;
    EXPECT_EQ(other.parse({"--" + option.name + "=" + option.standard}), Request::run);
    if (!option.letter) continue;
    OwnProgram third;
    third.parse({std::string{'-', option.letter} + option.standard});
    EXPECT_EQ(third.options.values(), other.options.values()) << option.letter;
  }
}

TEST(Help, FindsFlagsByNameTextAndGroup) {
  const std::string clip = help_of({"--help", "clip"});
  EXPECT_THAT(clip, StartsWith("Optimizer:\n      --clip-norm X           if the gradient's L2"));
  EXPECT_EQ(count_of(clip, "\n      --"), 1) << clip;
  EXPECT_THAT(help_of({"--help", "Perfetto"}), StartsWith("Output:\n      --trace FILE "));
  EXPECT_THAT(help_of({"--help", "communication"}),
              AllOf(HasSubstr("--communicator NAME"), HasSubstr("--bucket-mb MB"),
                    HasSubstr("--deterministic"), Not(HasSubstr("--keep-best"))));
  EXPECT_THAT(help_of({"--help", "print-config"}),
              StartsWith("Settings and help:\n      --print-config "));
  const std::string same = help_of({"--help", "clip-norm"});
  for (const std::vector<std::string>& way : {std::vector<std::string>{"--help=clip-norm"},
                                              {"-h", "clip-norm"},
                                              {"--help", "CLIP-Norm"},
                                              {"--help", "clip_norm"},
                                              {"--help=--clip-norm"},
                                              {"--epoch", "3", "--help", "clip-norm", "--quiet"}})
    EXPECT_EQ(help_of(way), same) << way[0] << ' ' << way.back();
}

TEST(Help, SuggestsTheNearestFlagForUnknownWords) {
  EXPECT_EQ(help_error_of({"--help", "bacthsize"}),
            "--help: no flag mentions 'bacthsize'; did you mean --batchsize? (--help all lists all "
            "flags)");
  EXPECT_EQ(help_error_of({"--help=xyzzyplugh"}),
            "--help: no flag mentions 'xyzzyplugh' (--help all lists all flags)");
  EXPECT_EQ(help_error_of({"-h", "q\nq"}),
            "--help: no flag mentions 'q?q' (--help all lists all flags)");
  EXPECT_EQ(help_error_of({"--help="}), "--help needs a value (--help help describes it)");
  EXPECT_EQ(help_error_of({"--help", "lr", "lars"}),
            "unexpected argument 'lars': train_test takes flags only");
}

// Also of those that follow from flags of the same line.
TEST(Help, ShowsDefaultsForTheCommandLine) {
  for (const char* kind : {"--help", "--help=all", "--help=epoch"}) {
    OwnProgram program;
    program.options.choose_defaults([&] { program.options.set_default("epoch", "300"); });
    EXPECT_THAT(program.help({"--lr", "wrong", kind}), HasSubstr("(default: 300)")) << kind;
  }
}

// Many flags, so that they do not fit a screen as a whole.
struct Tool {
  Tool() {
    options.group("Many", OnScreen::no);
    for (int i = 0; i < 40; ++i)
      options.add("flag-" + std::to_string(i), text, "TEXT", "text " + std::to_string(i));
  }
  std::string screen() {
    options.parse({"--help"});
    return options.text(Request::help);
  }

  std::string text = "none", other = "none";
  bool is_on = false;
  Options options{"tool", "A tool.", "tool --flag-1 a"};
};

TEST(Help, SummarisesFlagsByFirstClauseOrSummary) {
  Tool tool;
  tool.options.group("Own");
  const std::string long_text = "a text of so many words that a line of the screen has no room";
  tool.options.add("first", tool.other, "TEXT", "a text: of words; and more");
  tool.options.add("second", tool.other, "TEXT", "texts. More");
  tool.options.add("third", tool.other, "TEXT", long_text + ", not even in part");
  tool.options.add("fourth", tool.other, "TEXT", long_text).in_short("a text of many words");
  tool.options.add("fifth", tool.is_on, "a switch (off: no)");
  tool.options.add("a-name-that-leaves-its-column", tool.other, "TEXT", "a text");
  EXPECT_THAT(
      tool.screen(),
      HasSubstr("Own:\n"
                "      --first TEXT            a text (default: none)\n"
                "      --second TEXT           texts (default: none)\n"
                "      --third TEXT            a text of so many words that a line of the ...\n"
                "      --fourth TEXT           a text of many words (default: none)\n"
                "      --fifth                 a switch\n"
                "      --a-name-that-leaves-its-column TEXT  a text (default: none)\n"));
}

TEST(Help, ShowsCommonFlagsOfAnyGroup) {
  Tool tool;
  tool.options.add("often", tool.other, "TEXT", "used often").common();
  tool.options.group("Own");
  tool.options.add("mine", tool.other, "TEXT", "mine").common("of mine");
  tool.options.group("Rare (hardly used)", OnScreen::no);
  tool.options.add("second", tool.other, "TEXT", "x").common("used, too");
  const std::string screen = tool.screen();
  EXPECT_THAT(screen, HasSubstr("\nOwn:\n      --mine TEXT             of mine (default: none)\n\n"
                                "Common flags:\n"
                                "      --often TEXT            used often (default: none)\n"
                                "      --second TEXT           used, too (default: none)\n\n"));
  EXPECT_THAT(screen, HasSubstr("Many, Own, Rare, Settings"));
  EXPECT_THAT(screen, Not(HasSubstr("--flag-1 TEXT")));
}

TEST(Help, ShowsEverythingThatFitsAScreen) {
  Options options("tool", "A tool.", "tool --text a");
  std::string text = "none";
  options.add("text", text, "TEXT", "a text; and more").common("short");
  options.parse({"--help"});
  const std::string screen = options.text(Request::help);
  EXPECT_THAT(screen, AllOf(HasSubstr("a text; and more (default: none)"),
                            HasSubstr("--print-config"), Not(HasSubstr("--help all"))));
  options.parse({"--help", "all"});
  EXPECT_EQ(options.text(Request::help), screen);
}

TEST(Help, SearchesTheAppendix) {
  Tool tool;
  tool.options.appendix("Keys of a file:\n  launcher = WORDS\n");
  EXPECT_THAT(tool.screen(), HasSubstr("\n\nKeys of a file:\n  launcher = WORDS\n"));
  const auto help = [&](const std::string& word) {
    tool.options.parse({"--help", word});
    return tool.options.text(Request::help);
  };
  EXPECT_THAT(help("all"), EndsWith("\n\nKeys of a file:\n  launcher = WORDS\n"));
  EXPECT_EQ(help("Launcher"), "Keys of a file:\n  launcher = WORDS\n");
  EXPECT_THAT(help("flag-1"), AllOf(HasSubstr("--flag-1 TEXT"), Not(HasSubstr("Keys"))));
}

}  // namespace
}  // namespace tasuki::testing
