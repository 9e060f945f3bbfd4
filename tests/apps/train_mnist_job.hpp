// Runs train_mnist on a small data set of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "digits.hpp"
#include "launch.hpp"
#include "temporary_folder.hpp"

namespace tasuki::testing {

class TrainMnist : public ::testing::Test {
 protected:
  static constexpr int train_examples = 480, test_examples = 100;

  TrainMnist() { write_digits(data, train_examples, test_examples); }

  // Flags for a short run on the data set here; `out` is a folder in the test's own.
  std::vector<std::string> program(const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {TRAIN_MNIST, "--data", data,    "--unit",    "32",
                                      "--threads", "1",      "--out", folder / out};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  Finished run(int np, const std::string& out, const std::vector<std::string>& flags) {
    return run_program(mpirun(np, program(out, flags)));
  }
  // The same, of a job that must succeed; returns its log.
  nlohmann::json log_of(int np, const std::string& out, const std::vector<std::string>& flags) {
    const Finished job = run(np, out, flags);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return read_log(out);
  }
  nlohmann::json read_log(const std::string& out) {
    std::ifstream file(folder / (out + "/log"));
    return file ? nlohmann::json::parse(file) : nlohmann::json::array();
  }

  TemporaryFolder folder;
  std::string data = folder / "data";
};

inline std::vector<double> values_of(const nlohmann::json& log, const std::string& key) {
  std::vector<double> values;
  for (const auto& entry : log)
    if (entry.contains(key)) values.push_back(entry.at(key).get<double>());
  return values;
}

inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                        double relative) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], relative * expected[i]) << "value " << i;
}

}  // namespace tasuki::testing
