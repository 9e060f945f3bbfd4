// Flags and INI files: values, sources, errors; --print-config says what the parser does.

#include "program/flags/options.hpp"
#include "program/flags/config_file.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "communicator/registry.hpp"
#include "program/flags/option_value.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/optimizer.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::program {
namespace {

using Request = Options::Request;

// The flags of a training program and an additional one, with a config file of given contents.
struct ConfigProgram {
  explicit ConfigProgram(std::string config = "") : file(std::move(config)) {
    add_training_flags(options, settings);
    options.group("Model");
    options.add("unit,u", unit, {1, 65536}, "N", "units of each hidden layer");
  }
  Request parse(const std::vector<std::string>& arguments) {
    return options.parse(arguments, [this](const std::filesystem::path&) { return file; });
  }
  std::string config_text() const { return options.text(Request::print_config); }
  // A flag's value as text.
  std::string text_of(const std::string& flag) const {
    for (const auto& [name, text] : options.values())
      if (name == flag) return text;
    return "no such flag";
  }

  std::string file;
  TrainingSettings settings;
  std::int64_t unit = 1000;
  Options options{"train_test", "A program.", "mpirun -np 4 train_test"};
};

// The error that parsing meets; empty when it meets none.
std::string error_of(const std::vector<std::string>& arguments, const std::string& config = "") {
  return testing::error_everywhere_of(config.empty() ? ErrorKind::usage : ErrorKind::config,
                                      [&] { ConfigProgram(config).parse(arguments); });
}

TEST(Options, UseChainerMNsDefaults) {
  ConfigProgram program;
  EXPECT_EQ(program.parse({}), Request::run);
  EXPECT_EQ(program.settings.batchsize, 100);
  EXPECT_EQ(program.settings.epoch, 20);
  EXPECT_EQ(program.settings.out, "result");
  EXPECT_EQ(program.settings.communicator, "auto");
  EXPECT_EQ(program.settings.optimizer, "adam");
  EXPECT_EQ(program.text_of("gpu"), "none");
  EXPECT_FALSE(program.settings.gpu.is_wanted);
  EXPECT_EQ(program.unit, 1000);
  EXPECT_EQ(program.settings.resume.from, ResumeSettings::From::nothing);
}

TEST(Options, AcceptEveryFlagSyntax) {
  const std::vector<std::vector<std::string>> ways = {
      {"-b", "7"}, {"-b7"}, {"--batchsize", "7"}, {"--batchsize=7"}, {"--batchsize", "+7"}};
  for (const auto& way : ways) {
    ConfigProgram program;
    program.parse(way);
    EXPECT_EQ(program.settings.batchsize, 7) << way[0];
  }
}

TEST(Options, GpuAcceptsANumberOrNone) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--gpu"}, "auto"},        {{"-g"}, "auto"},   {{"-g", "1"}, "1"},
      {{"--gpu", "2"}, "2"},      {{"--gpu=3"}, "3"}, {{"-g", "-e", "2"}, "auto"},
      {{"--gpu", "none"}, "none"}};
  for (const auto& [arguments, expected] : cases) {
    ConfigProgram program;
    program.parse(arguments);
    EXPECT_EQ(program.text_of("gpu"), expected) << arguments[0];
    EXPECT_EQ(program.settings.gpu.is_wanted, expected != "none") << arguments[0];
  }
  EXPECT_EQ(error_of({"--gpu", "x"}),
            "--gpu: expected an integer from 0 to 1023, 'auto' or 'none', found 'x'");
}

TEST(Options, EnumsAreChosenByName) {
  const std::vector<std::pair<std::string, DType>> cases = {
      {"fp32", DType::float32}, {"fp16", DType::float16}, {"bf16", DType::bfloat16}};
  for (const auto& [name, expected] : cases) {
    ConfigProgram program;
    program.parse({"--wire-dtype", name});
    EXPECT_EQ(program.settings.wire_dtype, expected);
    EXPECT_EQ(program.text_of("wire-dtype"), name);
  }
  EXPECT_EQ(error_of({"--wire-dtype", "fp8"}),
            "--wire-dtype: expected one of fp32, fp16, bf16 (did you mean fp32?), found 'fp8'");
}

TEST(Options, CompressAcceptsMethodAndRank) {
  for (const std::string text : {"powersgd:4", "none"}) {
    ConfigProgram program;
    program.parse({"--compress", text});
    EXPECT_EQ(program.text_of("compress"), text);
  }
}

TEST(Options, ListsMustAscend) {
  ConfigProgram program;
  program.parse({"--lr-drops", "0.5,100,150"});
  EXPECT_EQ(program.settings.lr_drops, (std::vector{0.5, 100., 150.}));
  EXPECT_EQ(program.text_of("lr-drops"), "0.5,100,150");
  EXPECT_TRUE(program.options.is_changed("lr-drops"));
  program.parse({"--lr-drops", "auto"});
  EXPECT_TRUE(program.settings.lr_drops.empty());
  EXPECT_FALSE(program.options.is_changed("lr-drops"));
  for (const std::string text : {"", ",", "1,", ",1", "2,1", "1,1", "1 ,2", "-1", "1,x", "nan"})
    EXPECT_NE(error_of({"--lr-drops", text}), "") << text;
  EXPECT_EQ(error_of({"--lr-drops", "150,100"}),
            "--lr-drops: expected ascending numbers from 0 to 1000000000, separated by commas, or "
            "'auto', found '150,100'");
}

TEST(Options, TimesHaveUnitsOrClockFormat) {
  for (const auto& [text, seconds, shown] : {std::tuple{"90s", 90.0, "90s"},
                                             {"30m", 1800.0, "30m"},
                                             {"30min", 1800.0, "30m"},
                                             {"12h", 43200.0, "12h"},
                                             {"1.5h", 5400.0, "90m"},
                                             {"1h30m", 5400.0, "90m"},
                                             {"2d1h0.5s", 176400.5, "176400.5s"},
                                             {"1:30:00", 5400.0, "90m"},
                                             {"100:00:01", 360001.0, "360001s"}}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(parse_duration(text), seconds);
    EXPECT_EQ(duration_text(seconds), shown);
    EXPECT_EQ(parse_duration(shown), seconds);
  }
  for (const char* const text :
       {"",       "90",       "s",          "-5s",       "0s",     "0:00:00", "1:30", "1:60:00",
        "1:3:00", "1:30:00s", "1h30",       "30m1h",     "1h1h",   "nans",    "infs", "1e5h",
        "1 h",    ":00:00",   "1:00:00:00", "99999999d", "1.5.5s", "+-1s"})
    EXPECT_THROW(parse_duration(text), std::invalid_argument) << text;
  ConfigProgram program;
  program.parse({"--time-limit", "1:30:00"});
  EXPECT_EQ(program.settings.time_limit, 5400);
  program.parse({"--time-limit", "none"});
  EXPECT_FALSE(program.settings.time_limit);
  EXPECT_NE(error_of({"--time-limit", "90"}).find("a time such as 90s, 30m, 12h or 1:30:00"),
            std::string::npos);
}

TEST(Options, BytesHaveUnits) {
  for (const auto& [text, bytes, shown] : std::vector<std::tuple<std::string, double, std::string>>{
           {"16GB", 16e9, "16GB"},
           {"0.5TB", 5e11, "500GB"},
           {"1.5MB", 1.5e6, "1500kB"},
           {"1GiB", 0x1p30, "1073741824B"},
           {"2KiB", 2048, "2048B"},
           {"1.4B", 1, "1B"},
           {"1000000TB", 1e18, "1000000TB"}}) {
    EXPECT_EQ(parse_bytes(text), bytes) << text;
    EXPECT_EQ(bytes_text(bytes), shown);
    EXPECT_EQ(parse_bytes(shown), bytes);
  }
  for (const char* const text : {"", "16", "GB", "-1GB", "0GB", "0.1B", "16 GB", "16gb", "1e3GB",
                                 "1GB1", "1.2.3GB", "nanGB", "infGB", "1000001TB", "."})
    EXPECT_THROW(parse_bytes(text), std::invalid_argument) << text;
}

TEST(Options, ResumeAcceptsAPathOrKeyword) {
  using From = ResumeSettings::From;
  for (const auto& [text, from] : std::vector<std::pair<std::string, From>>{
           {"none", From::nothing}, {"auto", From::automatic}, {"./auto", From::path}}) {
    ConfigProgram program;
    program.parse({"--resume", text});
    EXPECT_EQ(program.settings.resume.from, from) << text;
    EXPECT_EQ(program.settings.resume.path, from == From::path ? text : "");
    EXPECT_EQ(program.text_of("resume"), text);
  }
}

TEST(Options, LastOfRepeatedFlagsWins) {
  ConfigProgram program("unit = 3\n");
  EXPECT_EQ(program.parse({"--config", "none", "--epoch", "1", "--quiet", "-e5", "--config", "f",
                           "--quiet=false", "--epoch=30", "--print-config", "--print-config"}),
            Request::print_config);
  EXPECT_EQ(program.settings.epoch, 30);
  EXPECT_FALSE(program.settings.quiet);
  EXPECT_EQ(program.unit, 3);
  EXPECT_NE(program.config_text().find("# file f\n"), std::string::npos);
}

TEST(Options, SwitchesCanBeNegated) {
  ConfigProgram program("quiet = true\ndry-run = yes\n");
  program.parse({"--config", "f", "--quiet=false"});
  EXPECT_FALSE(program.settings.quiet);
  EXPECT_TRUE(program.settings.dry_run);
}

TEST(Options, ErrorsNameFlagExpectedAndFoundValue) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--epoch", "ten"}, "--epoch: expected an integer from 1 to 1000000000, found 'ten'"},
      {{"--epoch", "0"}, "--epoch: expected an integer from 1 to 1000000000, found '0'"},
      {{"--epoch", "-5"}, "--epoch: expected an integer from 1 to 1000000000, found '-5'"},
      {{"--epoch", "1.5"}, "--epoch: expected an integer from 1 to 1000000000, found '1.5'"},
      {{"--epoch", "99999999999999999999"},
       "--epoch: expected an integer from 1 to 1000000000, found '99999999999999999999'"},
      {{"--lr", "nan"}, "--lr: expected a number from 0 to 1000000, or 'auto', found 'nan'"},
      {{"--lr", "inf"}, "--lr: expected a number from 0 to 1000000, or 'auto', found 'inf'"},
      {{"--out", ""}, "--out needs a value: DIR"},
      {{"--out="}, "--out needs a value (--help out describes it)"},
      {{"--epoch"}, "--epoch needs a value (--help epoch describes it)"},
      {{"--epoch", "--quiet"},
       "--epoch: expected an integer from 1 to 1000000000, found '--quiet'"},
      {{"--version=x"}, "--version does not take a value"},
      {{"train.txt"}, "unexpected argument 'train.txt': train_test takes flags only"},
      {{"--out", "a\nb"}, "--out: expected one line of text, found a line break"},
  };
  for (const auto& [arguments, expected] : cases)
    EXPECT_EQ(error_of(arguments), expected) << arguments[0];
  EXPECT_NE(error_of({"--optimizer", "adma"}).find("(did you mean adam?), found 'adma'"),
            std::string::npos);
}

TEST(Options, UnknownFlagsSuggestTheNearest) {
  EXPECT_EQ(error_of({"--batchsiz", "3"}),
            "unknown flag --batchsiz; did you mean --batchsize? (--help all lists all flags)");
  EXPECT_EQ(error_of({"--epochs=3"}),
            "unknown flag --epochs; did you mean --epoch? (--help all lists all flags)");
  // Abbreviations are refused, and the error names the flag.
  EXPECT_EQ(error_of({"--batch", "3"}),
            "unknown flag --batch; did you mean --batchsize? (--help all lists all flags)");
  // Also with typing errors.
  EXPECT_EQ(error_of({"--bach", "3"}),
            "unknown flag --bach; did you mean --batchsize? (--help all lists all flags)");
  EXPECT_EQ(error_of({"--optimzer-name", "sgd"}),
            "unknown flag --optimzer-name (--help all lists all flags)");
  EXPECT_EQ(error_of({"--print-conf"}),
            "unknown flag --print-conf; did you mean --print-config? (--help all lists all flags)");
  EXPECT_EQ(error_of({"-z"}), "unknown flag -z (--help all lists all flags)");
  EXPECT_EQ(error_of({"--xyzzyplugh"}), "unknown flag --xyzzyplugh (--help all lists all flags)");
  // In one line, whatever was given.
  EXPECT_EQ(error_of({"--xyzzy\nplugh"}),
            "unknown flag --xyzzy?plugh (--help all lists all flags)");
}

TEST(Options, CommandLineOverridesFileOverridesDefault) {
  ConfigProgram program("epoch = 5  # a comment\n\n; another\n  unit=7\nout = \"a #b\"\n");
  program.parse({"--config", "run.ini", "--epoch", "9"});
  EXPECT_EQ(program.settings.epoch, 9);
  EXPECT_EQ(program.unit, 7);
  EXPECT_EQ(program.settings.out, "a #b");
  EXPECT_EQ(program.settings.batchsize, 100);
  for (const Option& option : program.options.all()) {
    const Source expected = option.name == "epoch"                          ? Source::command_line
                            : option.name == "unit" || option.name == "out" ? Source::file
                                                                            : Source::standard;
    EXPECT_EQ(option.source, expected) << option.name;
  }
}

TEST(Options, QuotedValuesRoundTrip) {
  const std::vector<std::string> values = {
      "a",  "a b",          "\"",        "\\",          "#",     "a\r",
      "\t", "\x1b[2J \x7f", "a\u009b1m", "caf\xe9\x80", "\\x1b", std::string("\x1b") + "41"};
  for (const std::string& value : values) {
    const auto lines = parse_config("x = " + quote_config_value(value), "f");
    ASSERT_EQ(lines.size(), 1u) << value;
    EXPECT_EQ(lines[0].value, value);
  }
}

TEST(Options, FilesMayHaveWindowsLineEndings) {
  const auto lines = parse_config(
      "\xEF\xBB\xBF"
      "epoch = 3\r\n\r\n# a comment\r\nout = \"a b\" # more\r\nunit = 7\r\n",
      "f");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].name, "epoch");
  EXPECT_EQ(lines[0].value, "3");
  EXPECT_EQ(lines[1].value, "a b");
  EXPECT_EQ(lines[1].number, 4);
  EXPECT_EQ(lines[2].value, "7");
}

TEST(Options, FileErrorsNameTheLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\nbatchsiz = 3\n", "f:2: no setting is called 'batchsiz'; did you mean 'batchsize'?"},
      {"epoch = x\n", "f:1: epoch: expected an integer from 1 to 1000000000, found 'x'"},
      {"epoch = 1\nepoch = 2\n", "f:2: epoch is set twice, first in line 1; keep one"},
      {"epoch =\n", "f:1: epoch needs a value: N"},
      {"[run]\n", "f:1: expected `name = value`, found `[run]`"},
      {"= 3\n", "f:1: expected `name = value`, found `= 3`"},
      {"out = \"a\n", "f:1: the quoted value of 'out' has no closing quote"},
      {"config = other\n", "f:1: no setting is called 'config'"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(error_of({"--config", "f"}, text), expected);
}

TEST(Options, PrintConfigRoundTripsEveryValue) {
  ConfigProgram first;
  first.parse({"--print-config",
               "-b",
               "12",
               "--lr",
               "0.1",
               "--out",
               " x \"y\\ # ;",
               "--resume",
               "a b",
               "--gpu=1",
               "--quiet",
               "--max-iterations",
               "4",
               "--seed",
               std::to_string(std::numeric_limits<std::int64_t>::max()),
               "--optimizer",
               "sgd",
               "--shards",
               "12",
               "--data",
               "none"});
  ConfigProgram second(first.config_text());
  second.parse({"--config", "f"});
  EXPECT_EQ(first.options.values(), second.options.values());
  EXPECT_EQ(second.settings.out, " x \"y\\ # ;");
  EXPECT_EQ(second.settings.lr, 0.1);
  EXPECT_EQ(second.settings.shards, 12);
  EXPECT_EQ(second.settings.test_examples, std::nullopt);
}

TEST(Options, PrintConfigNamesValueOrigins) {
  ConfigProgram program("epoch = 5\n");
  EXPECT_EQ(program.parse({"--config", "run.ini", "-u", "9", "--print-config"}),
            Request::print_config);
  const std::string text = program.config_text();
  const auto line_with = [&text](const std::string& start) {
    const auto begin = text.find("\n" + start) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_TRUE(line_with("epoch =").ends_with("# file run.ini")) << text;
  EXPECT_TRUE(line_with("unit =").ends_with("# command line")) << text;
  EXPECT_TRUE(line_with("batchsize =").ends_with("# default")) << text;
}

TEST(Options, ValueHelpListsAcceptedValues) {
  ConfigProgram program;
  EXPECT_EQ(program.parse({"--communicator", "help"}), Request::listing);
  EXPECT_EQ(program.options.text(Request::listing), communicator_help());
  EXPECT_EQ(program.settings.communicator, "auto");

  ConfigProgram both;
  EXPECT_EQ(both.parse({"--optimizer=help", "--communicator=help"}), Request::listing);
  EXPECT_EQ(both.options.text(Request::listing), optimizer_help() + communicator_help());
  EXPECT_NE(optimizer_help().find("momentum_sgd     lr 0.01, momentum 0.9\n"), std::string::npos)
      << optimizer_help();

  EXPECT_EQ(ConfigProgram().parse({"--communicator", "help", "--help"}), Request::help);
  EXPECT_EQ(ConfigProgram().parse({"--communicator", "help", "--print-config"}), Request::listing);
  ConfigProgram other;  // a flag without a listing
  EXPECT_EQ(other.parse({"--out", "help"}), Request::run);
  EXPECT_EQ(other.settings.out, "help");
}

TEST(Options, LastValueDecidesWhetherToListNames) {
  ConfigProgram last;
  EXPECT_EQ(last.parse({"--communicator", "help", "--communicator", "flat"}), Request::run);
  EXPECT_EQ(last.settings.communicator, "flat");
  ConfigProgram file("communicator = help\n");
  EXPECT_EQ(file.parse({"--config", "f"}), Request::listing);
  EXPECT_EQ(file.options.text(Request::listing), communicator_help());
  ConfigProgram overruled("communicator = help\n");
  EXPECT_EQ(overruled.parse({"--config", "f", "--communicator", "flat"}), Request::run);
  EXPECT_EQ(overruled.settings.communicator, "flat");
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("adma", "adam"), 1);  // a swap of neighbours
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

TEST(Nearest, PrefersAbbreviationsToTypos) {
  const std::vector<std::string> flags = {"batchsize", "back", "lr", "lr-schedule", "conv"};
  EXPECT_EQ(nearest("batch", flags), "batchsize");
  EXPECT_EQ(nearest("bacj", flags), "back");
  EXPECT_EQ(nearest("bacth", flags), "batchsize");
  EXPECT_EQ(nearest("btach", flags), "batchsize");
  EXPECT_EQ(nearest("lr-shced", flags), "lr-schedule");
  EXPECT_EQ(nearest("lx", flags), "lr");
  EXPECT_EQ(nearest("xyz", flags), "");
}

}  // namespace
}  // namespace tasuki::program
