// Runs training programs on a small data set of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/json.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {

// Flags and some more.
std::vector<std::string> with(std::vector<std::string> flags, const std::vector<std::string>& more);

class TrainingJob : public ::testing::Test {
 protected:
  // The program and the flags that all its runs have.
  explicit TrainingJob(std::vector<std::string> words) : words_(std::move(words)) {}

  // For a short run on the data set here; `out` is a folder in the test's own, in which a run takes
  // the place of one before.
  std::vector<std::string> program(const std::string& out, const std::vector<std::string>& flags);
  Finished run(int np, const std::string& out, const std::vector<std::string>& flags);
  // A job of these words that is asked to stop once `out` has a log, which must be new.
  Finished run_until_asked(const std::vector<std::string>& words, const std::string& out);
  // A run that must succeed; returns its log.
  nlohmann::json log_of(int np, const std::string& out, const std::vector<std::string>& flags);
  nlohmann::json read_log(const std::string& out);

  TemporaryFolder folder;
  std::string data = folder / "data";

 private:
  std::vector<std::string> words_;
};

// The numbers under `key` in the entries that have it.
std::vector<double> values_of(const nlohmann::json& log, const std::string& key);

void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double relative);

}  // namespace tasuki::testing
