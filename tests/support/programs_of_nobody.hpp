// Permissions apply to the programs that a test starts, also where root runs it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launch.hpp"

namespace tasuki::testing {

// The words that start a program as nobody where root runs the test.
inline std::vector<std::string> words_of_nobody(std::vector<std::string> words) {
  if (::geteuid() == 0)
    words.insert(words.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                 "env", "HOME=/nonexistent"});
  return words;
}

// Why words_of_nobody() could not start the program here; empty: it can.
inline std::string why_nobody_cannot_run(const std::string& program) {
  const Finished tried = run_program(words_of_nobody({program, "--version"}));
  return tried.exit_code == 0 ? "" : "nobody cannot start " + program + ": " + tried.all();
}

// Where root runs the test, all that is in the folder becomes nobody's.
inline void give_to_nobody(const std::filesystem::path& folder) {
  if (::geteuid() != 0) return;
  constexpr uid_t nobody = 65534;
  EXPECT_EQ(::chown(folder.c_str(), nobody, nobody), 0);
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
    EXPECT_EQ(::lchown(each.path().c_str(), nobody, nobody), 0);
}

}  // namespace tasuki::testing
