// Flags that have several names: those of ChainerMN, with underscores, as letters.

#include <gtest/gtest.h>

#include "program/flags/options.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::program {
namespace {

struct AliasedProgram {
  explicit AliasedProgram(std::string config = "") : file(std::move(config)) {
    options.alias("snapshot-every", {"frequency", "f"}, {{"-1", "end"}});
    options.alias("quiet", {"silent"});
    options.add("snapshot-every,s", every, "end", {1, 100}, "N", "epochs between snapshots");
    options.add("quiet", quiet, "print nothing");
  }
  Options::Request parse(const std::vector<std::string>& arguments) {
    return options.parse(arguments, [this](const std::filesystem::path&) { return file; });
  }

  std::string file;
  std::optional<std::int64_t> every;
  bool quiet = false;
  Options options{"train_test", "A program.", "train_test"};
};

std::string alias_error_of(const std::vector<std::string>& arguments,
                           const std::string& config = "") {
  return testing::error_everywhere_of(config.empty() ? ErrorKind::usage : ErrorKind::config,
                                      [&] { AliasedProgram(config).parse(arguments); });
}

TEST(OptionNames, AliasesSetTheFlag) {
  const std::vector<std::vector<std::string>> ways = {{"--frequency", "7"},
                                                      {"--frequency=7"},
                                                      {"-f", "7"},
                                                      {"-f7"},
                                                      {"--snapshot_every=7"},
                                                      {"--snapshot_every", "7"},
                                                      {"--frequency=3", "-s7"},
                                                      {"-s3", "-f7"}};
  for (const auto& way : ways) {
    AliasedProgram program;
    program.parse(way);
    EXPECT_EQ(program.every, 7) << way[0];
    EXPECT_TRUE(program.options.is_given("snapshot-every")) << way[0];
  }
  AliasedProgram program;
  program.parse({"--silent"});
  EXPECT_TRUE(program.quiet);
  program.parse({"--silent=false"});
  EXPECT_FALSE(program.quiet);
}

TEST(OptionNames, AliasesCanHaveTheirOwnValues) {
  for (const auto& way :
       std::vector<std::vector<std::string>>{{"-f", "-1"}, {"--frequency=-1"}, {"-f", "end"}}) {
    AliasedProgram program;
    program.every = 3;
    program.parse(way);
    EXPECT_EQ(program.every, std::nullopt) << way[0];
  }
  EXPECT_NE(alias_error_of({"-s", "-1"}), "");
}

TEST(OptionNames, FilesCanUseAliases) {
  for (const char* const line :
       {"frequency = 7\n", "snapshot_every = 7\n", "snapshot-every = 7\n"}) {
    AliasedProgram program(line);
    program.parse({"--config", "f"});
    EXPECT_EQ(program.every, 7) << line;
    const std::string written = program.options.text(Options::Request::print_config);
    EXPECT_NE(written.find("\nsnapshot-every = 7 "), std::string::npos) << written;
    EXPECT_EQ(written.find("frequency"), std::string::npos) << written;
  }
  EXPECT_EQ(alias_error_of({"--config", "f"}, "frequency = 7\nsnapshot-every = 7\n"),
            "f:2: snapshot-every is set twice, first in line 1; keep one");
}

TEST(OptionNames, ErrorsUseTheTypedName) {
  EXPECT_EQ(alias_error_of({"--frequency", "x"}),
            "--frequency: expected an integer from 1 to 100, or 'end', found 'x'");
  EXPECT_EQ(alias_error_of({"-f", "0"}),
            "-f: expected an integer from 1 to 100, or 'end', found '0'");
  EXPECT_EQ(alias_error_of({"--frequancy", "1"}),
            "unknown flag --frequancy; did you mean --frequency? (--help all lists all flags)");
}

TEST(OptionNames, HelpListsAliasesWithTheFlag) {
  AliasedProgram program;
  program.parse({"--help"});
  const std::string help = program.options.text(Options::Request::help);
  EXPECT_NE(help.find("epochs between snapshots; also --frequency, -f\n"), std::string::npos)
      << help;
  EXPECT_NE(help.find("print nothing; also --silent\n"), std::string::npos) << help;
}

}  // namespace
}  // namespace tasuki::program
