// Runs train_seq2seq.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/json.hpp"
#include "training_job.hpp"

namespace tasuki::testing {

// A job without --data, which this program does not have.
class Seq2seqJob : public ::testing::Test {
 protected:
  Finished run(int np, const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {TRAIN_SEQ2SEQ, "--threads", "1", "--out", folder / out};
    if (std::ranges::count(flags, "--resume") == 0) words.push_back("--overwrite");
    return run_program(mpirun(np, with(words, flags)));
  }
  nlohmann::json log_of(int np, const std::string& out, const std::vector<std::string>& flags) {
    const Finished job = run(np, out, flags);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return log_in(folder / (out + "/log"));
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  }

  TemporaryFolder folder;
  // 20 iterations on dates.
  const std::vector<std::string> small = {"--unit",
                                          "24",
                                          "--layer",
                                          "2",
                                          "--shards",
                                          "2",
                                          "--examples",
                                          "600",
                                          "--epoch",
                                          "2",
                                          "--test-examples",
                                          "50",
                                          "--bleu",
                                          "--lr",
                                          "0.01",
                                          "--log-every",
                                          "1",
                                          "--global-batch",
                                          "64",
                                          "--bucket-steps",
                                          "4"};
};

}  // namespace tasuki::testing
