// The program simulate: on traces of real runs, and on what it cannot use.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <fstream>

#include "tests/support/json.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Simulate : public TrainMnist {
 protected:
  Finished simulate(const std::vector<std::string>& flags) {
    return run_program(with({SIMULATE}, flags));
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  void expect_error(const std::vector<std::string>& flags, int exit_code, const std::string& says) {
    const Finished ended = simulate(flags);
    EXPECT_EQ(ended.exit_code, exit_code) << ended.all();
    EXPECT_THAT(ended.err, StartsWith("error: "));
    EXPECT_THAT(ended.err, HasSubstr(says));
    EXPECT_EQ(count_of(ended.err, "\n"), 1) << ended.err;
    EXPECT_EQ(ended.out, "");
  }
};

TEST_F(Simulate, PredictsFromTracesOfOneAndTwoRanks) {
  const std::string one = folder / "one.json", two = folder / "two.json";
  const std::vector<std::string> flags = {"--batchsize",   "16", "--max-iterations", "16",
                                          "--trace-steps", "10"};
  log_of(1, "one", with(flags, {"--trace", one}));
  log_of(2, "two", with(flags, {"--trace", two, "--exchange", "whole", "--bucket-mb", "0.05"}));
  const std::string json = folder / "predicted.json";
  const Finished ended = simulate({"--single", one, "--trace", two, "--batch", "16", "--rate", "10",
                                   "--ranks", "1,2,16384", "--json", json});
  ASSERT_EQ(ended.exit_code, 0) << ended.all();
  EXPECT_THAT(ended.out, HasSubstr("10 MB/s (--rate)"));
  EXPECT_EQ(count_of(ended.out, "\n"), 7) << ended.out;

  const auto found = json_in(json);
  const auto& rows = found.at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].at("efficiency"), 1.0);
  EXPECT_EQ(rows[2].at("ranks"), 16384);
  EXPECT_GT(rows[1].at("step"), rows[0].at("step"));
  EXPECT_GT(rows[2].at("step"), rows[1].at("step"));
  double bytes = 0;
  for (const auto& range : found.at("several").at("ranges"))
    bytes += range.at("bytes").get<double>();
  EXPECT_GT(found.at("several").at("ranges").size(), 1U);
  // 784 x 32, 32 x 32 and 32 x 10 weights, biases, and notices behind them.
  EXPECT_NEAR(bytes, 4 * (784 * 32 + 32 + 32 * 32 + 32 + 32 * 10 + 10), 512);
  // Most of two ranks' exchange of 26,506 gradients at 10 MB/s.
  EXPECT_GT(rows[1].at("exchange"), bytes / 10e6);

  const Finished half = simulate({"--trace", two, "--rate", "10", "--wire-dtype", "fp16",
                                  "--latency", "0", "--ranks", "2", "--json", json});
  ASSERT_EQ(half.exit_code, 0) << half.all();
  EXPECT_NEAR(json_in(json).at("rows")[0].at("exchange").get<double>(), bytes / 2 / 10e6, 1e-9);

  expect_error({"--single", two}, 64, "--single: expected the trace of one rank, found 2");
  expect_error({"--trace", one}, 64, "--trace: expected the trace of several ranks, found one");
  expect_error({"--single", one}, 64, "--gradient-mb");
}

TEST_F(Simulate, PredictsFromNumbersOnly) {
  const Finished ended = simulate({"--forward-ms", "30", "--backward-ms", "60", "--update-ms", "10",
                                   "--gradient-mb", "100", "--buckets", "1", "--latency", "0",
                                   "--rate", "1000", "--ranks", "1,2", "--jitter", "0"});
  ASSERT_EQ(ended.exit_code, 0) << ended.all();
  // One bucket is ready last: 100 ms for each.
  EXPECT_THAT(ended.out, HasSubstr("    2     2    200.00     50.0 %"));
  const Finished strong =
      simulate({"--forward-ms",   "30",  "--backward-ms", "60",    "--update-ms", "10",
                "--gradient-mb",  "100", "--latency",     "0",     "--rate",      "1000",
                "--ranks",        "2",   "--exchange",    "whole", "--batch",     "8",
                "--global-batch", "8",   "--jitter",      "0"});
  ASSERT_EQ(strong.exit_code, 0) << strong.all();
  EXPECT_THAT(strong.out, HasSubstr("    2     2    155.00     32.3 %"));
  EXPECT_EQ(simulate({"--help"}).exit_code, 0);
  // 100 ms a step and 100 ms for the weights, in one of ten steps; ten steps hide them.
  for (const bool overlaps : {false, true}) {
    const Finished local = simulate(with(
        {"--forward-ms", "30", "--backward-ms", "60", "--update-ms", "10", "--gradient-mb", "100",
         "--latency", "0", "--rate", "1000", "--ranks", "2", "--jitter", "0", "--sync-every", "10"},
        overlaps ? std::vector<std::string>{"--sync-overlap"} : std::vector<std::string>{}));
    ASSERT_EQ(local.exit_code, 0) << local.all();
    EXPECT_THAT(local.out, HasSubstr(overlaps ? "    2     2    100.00    100.0 %"
                                              : "    2     2    110.00     90.9 %"));
  }
  expect_error({"--forward-ms", "1", "--gradient-mb", "1", "--sync-overlap"}, 64, "--sync-every");
}

// A transformer of four blocks, one rank.
TEST_F(Simulate, SaysWhatFitsInMemory) {
  const std::string text = write("text", std::string(4000, 'a') + std::string(4000, 'b'));
  const std::string trace = folder / "lm.json", json = folder / "fit.json";
  const auto traced = [&](const std::vector<std::string>& flags) {
    return run_program(with({TRAIN_LM,     "--data",           text,  "--layers",
                             "4",          "--heads",          "2",   "--width",
                             "64",         "--context",        "64",  "--batchsize",
                             "8",          "--max-iterations", "12",  "--threads",
                             "1",          "--trace",          trace, "--out",
                             folder / "lm"},
                            flags));
  };
  const Finished job = traced({});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  const auto predicted = [&](const std::vector<std::string>& flags) {
    const Finished ended =
        simulate(with({"--single", trace, "--ranks", "1", "--json", json}, flags));
    EXPECT_EQ(ended.exit_code, 0) << ended.all();
    return json_in(json);
  };
  const auto none = predicted({"--recompute", "none"}), all = predicted({"--recompute", "all"});
  EXPECT_EQ(none.at("batch"), 8);
  EXPECT_GT(all.at("rows")[0].at("step"), none.at("rows")[0].at("step"));
  const auto activations = [](const nlohmann::json& found) {
    return found.at("memory").at("activations").get<double>();
  };
  EXPECT_LT(activations(all), 0.5 * activations(none));
  const double total = none.at("memory").at("total");

  const auto roomy = predicted({"--fit", "1TB"}).at("fit");
  ASSERT_EQ(roomy.size(), 1U);
  EXPECT_EQ(roomy[0].at("flags"), "--batchsize 8");
  const auto tight = predicted({"--fit", fmt::format("{:.0f}B", total - 1000)}).at("fit");
  EXPECT_GT(tight.size(), 1U);
  for (const auto& row : tight) EXPECT_LT(row.at("memory").at("total"), total);

  expect_error({"--single", trace, "--ranks", "1", "--fit", "1kB"}, 69,
               "nearest is --batchsize 1 --accumulate 8");
  expect_error({"--single", trace, "--fit", "1GB"}, 64, "--fit: expected one number of ranks");
  expect_error({"--single", trace, "--ranks", "1", "--fit", "1GB", "--recompute", "all"}, 64,
               "--fit and --recompute");
  expect_error({"--single", trace, "--ranks", "1", "--fit", "1GB", "--sync-every", "2"}, 64,
               "--fit and --sync-every");
  expect_error({"--single", trace, "--fit", "16"}, 64, "bytes with a unit");
  expect_error({"--forward-ms", "1", "--gradient-mb", "1", "--recompute", "all"}, 64,
               "--recompute: expected a traced run");
  ASSERT_EQ(traced({"--accumulate", "2"}).exit_code, 0);
  expect_error({"--single", trace, "--ranks", "1", "--fit", "1GB"}, 65, "found 2 passes");
}

TEST_F(Simulate, NamesUnusableInput) {
  expect_error({}, 64, "no step was given");
  expect_error({"--trace", folder / "none.json"}, 66, "none.json");
  expect_error({"--trace", write("damaged.json", R"({"otherData":)")}, 65, "it is not JSON");
  expect_error({"--trace", write("empty.json", R"({"otherData":{"ranks":[{"host":"a"}]},)"
                                               R"("traceEvents":[]})")},
               65, "expected at least 4 steps");
  const auto event = [&](const std::string& text) {
    return write("event.json", R"({"otherData":{"ranks":[]},"traceEvents":[)" + text + "]}");
  };
  for (const char* text :
       {R"({"name":"input","ts":null,"pid":0})", R"({"name":"input","ts":1e300,"pid":0})",
        R"({"name":"input","ts":1,"pid":1e300})", R"({"name":"input","ts":1,"dur":"x","pid":0})",
        R"({"name":"i","ts":1,"pid":0,"args":{"number":-9223372036854775808,"bytes":1}})",
        R"({"name":"\u001b[2J","ts":[[[]]],"pid":0})"})
    expect_error({"--trace", event(text)}, 65, "event.json: expected ");
  expect_error({"--trace", write("deep.json", std::string(200'000, '['))}, 65,
               "more than 100 levels");
  expect_error({"--trace", write("gan.json", R"({"otherData":{"optimizers":2,"ranks":[]},)"
                                             R"("traceEvents":[]})")},
               65, "expected a run with one optimizer, found 2");
  expect_error({"--forward-ms", "1", "--gradient-mb", "1", "--link", write("link.json", "{}")}, 65,
               "expected a link.json");
  expect_error({"--forward-ms", "1", "--gradient-mb", "1", "--ranks", "1.5"}, 64, "--ranks");
  expect_error({"--forward-ms", "1", "--gradient-mb", "1", "--json", "/dev/null/t.json"}, 73,
               "/dev/null");
}

}  // namespace
}  // namespace tasuki::testing
