// Runs training programs on a small data set of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {

// Flags and some more.
inline std::vector<std::string> with(std::vector<std::string> flags,
                                     const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

class TrainingJob : public ::testing::Test {
 protected:
  // The program and the flags that all its runs have.
  explicit TrainingJob(std::vector<std::string> words) : words_(std::move(words)) {}

  // For a short run on the data set here; `out` is a folder in the test's own, in which a run takes
  // the place of one before.
  std::vector<std::string> program(const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> words =
        with(words_, {"--data", data, "--threads", "1", "--out", folder / out});
    if (std::ranges::count(flags, "--resume") == 0) words.push_back("--overwrite");
    return with(words, flags);
  }
  Finished run(int np, const std::string& out, const std::vector<std::string>& flags) {
    return run_program(mpirun(np, program(out, flags)));
  }
  // A job of these words that is asked to stop once `out` has a log, which must be new.
  Finished run_until_asked(const std::vector<std::string>& words, const std::string& out) {
    bool is_asked = false;
    return run_program(words, 120, {}, [&](pid_t launcher) {
      if (is_asked || !std::filesystem::exists(folder / (out + "/log"))) return;
      is_asked = true;
      kill(launcher, SIGUSR1);
    });
  }
  // A run that must succeed; returns its log.
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

 private:
  std::vector<std::string> words_;
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
