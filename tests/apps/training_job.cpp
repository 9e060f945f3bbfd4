#include "training_job.hpp"

#include <signal.h>

#include <algorithm>
#include <filesystem>

namespace tasuki::testing {

std::vector<std::string> with(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> TrainingJob::program(const std::string& out,
                                              const std::vector<std::string>& flags) {
  std::vector<std::string> words =
      with(words_, {"--data", data, "--threads", "1", "--out", folder / out});
  if (std::ranges::count(flags, "--resume") == 0) words.push_back("--overwrite");
  return with(words, flags);
}

Finished TrainingJob::run(int np, const std::string& out, const std::vector<std::string>& flags) {
  return run_program(mpirun(np, program(out, flags)));
}

Finished TrainingJob::run_until_asked(const std::vector<std::string>& words,
                                      const std::string& out) {
  bool is_asked = false;
  return run_program(words, 120, {}, [&](pid_t launcher) {
    if (is_asked || !std::filesystem::exists(folder / (out + "/log"))) return;
    is_asked = true;
    kill(launcher, SIGUSR1);
  });
}

nlohmann::json TrainingJob::log_of(int np, const std::string& out,
                                   const std::vector<std::string>& flags) {
  const Finished job = run(np, out, flags);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  return read_log(out);
}

nlohmann::json TrainingJob::read_log(const std::string& out) {
  return log_in(folder / (out + "/log"));
}

std::vector<double> values_of(const nlohmann::json& log, const std::string& key) {
  std::vector<double> values;
  for (const auto& entry : log)
    if (entry.contains(key)) values.push_back(entry.at(key).get<double>());
  return values;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double relative) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], relative * expected[i]) << "value " << i;
}

}  // namespace tasuki::testing
