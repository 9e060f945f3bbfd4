// What the tests of predict share: calls of it, and a run on digits that all of them are about.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <sstream>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/json.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

inline std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json_from(line));
  return lines;
}

inline std::vector<std::string> predict_words(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {PREDICT};
  words.insert(words.end(), flags.begin(), flags.end());
  return with(words, {"--threads", "1"});
}

// What a call that must succeed prints, as JSON: rows, then the summary.
inline std::vector<json> predicted(int np, const std::vector<std::string>& flags) {
  const std::vector<std::string> words = predict_words(with(flags, {"--format", "json"}));
  const Finished job = run_program(np == 1 ? words : mpirun(np, words));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  return job.exit_code == 0 ? lines_of(job.out) : std::vector<json>{};
}

inline json summary_of(int np, const std::vector<std::string>& flags) {
  const auto lines = predicted(np, with(flags, {"--quiet"}));
  EXPECT_EQ(lines.size(), 1u);
  return lines.empty() ? json() : lines.back().at("summary");
}

struct Refusal {
  std::vector<std::string> flags;
  std::string line;  // a part of it
  ErrorKind kind;
};

// Several at a time, because most of a short run is waiting for MPI.
inline void expect_lines(const std::vector<Refusal>& cases) {
  constexpr std::size_t at_once = 8;
  for (std::size_t begin = 0; begin < cases.size(); begin += at_once) {
    std::vector<std::future<Finished>> jobs;
    for (std::size_t i = begin; i < std::min(begin + at_once, cases.size()); ++i)
      jobs.push_back(std::async(std::launch::async, [&flags = cases[i].flags] {
        return run_program(predict_words(flags));
      }));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto& [flags, line, kind] = cases[begin + i];
      const Finished job = jobs[i].get();
      EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
      EXPECT_EQ(count_of(job.err, line), 1) << line << "\n--- in ---\n" << job.all();
      EXPECT_EQ(std::ranges::count(job.err, '\n'), 1) << job.err;
      EXPECT_EQ(job.out, "");
    }
  }
}

// A run of train_mnist, trained once for all tests of a program.
class TrainedDigits final : public TrainMnist {
 public:
  TrainedDigits() : log(log_of(1, "result", {"--epoch", "2"})) {}
  std::string result() const { return folder / "result"; }
  const std::string& images() const { return data; }

  using TrainMnist::test_examples;
  const json log;

 private:
  void TestBody() override {}
};

class PredictDigits : public ::testing::Test {
 protected:
  std::string result() const { return trained().result(); }
  std::string images() const { return data + "/t10k-images-idx3-ubyte"; }
  std::string labels() const { return data + "/t10k-labels-idx1-ubyte"; }
  double accuracy() const { return trained().log.back().at("validation/main/accuracy"); }
  double loss() const { return trained().log.back().at("validation/main/loss"); }

  static constexpr int test_examples = TrainedDigits::test_examples;
  const std::string data = trained().images();
  TemporaryFolder folder;

 private:
  static const TrainedDigits& trained() {
    static const TrainedDigits run;
    return run;
  }
};

}  // namespace tasuki::testing
