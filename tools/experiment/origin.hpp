// What a run was made with, and whether all rows of a table were made alike.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tasuki::experiment {

// As the program reports it (program/report/about.hpp). Records of older versions have empty
// members.
struct RunOrigin {
  std::string version;                 // of Tasuki and of what it runs on
  std::string host, machine;           // of rank 0
  std::string gpu;                     // of rank 0; empty on CPUs
  std::string data;                    // folder
  std::optional<double> global_batch;  // examples of a step on all ranks
  bool oversubscribed = false;         // a machine had fewer cores than computing threads
};

// Reads the origin of the run whose results are in `folder`; nothing if the program did not report
// it. An error of kind data says what is wrong with the report.
std::optional<RunOrigin> read_origin(const std::filesystem::path& folder);

// Rows, counted from 1, that were made with the same version, on the same kind of machine, on the
// same data. The host's name does not count, because runs on several nodes may start on any of
// them.
struct AlikeRows {
  std::string text;  // what they were made with
  std::vector<int> rows;
};
// Groups rows by origin. `origins`: for each row, those of its finished repeats. More than one
// group is a mixture; a row whose repeats differ is in several. A GPU differs from another GPU but
// not from a CPU, because a grid may compare the two.
std::vector<AlikeRows> group_by_origin(const std::vector<std::vector<RunOrigin>>& origins);

}  // namespace tasuki::experiment
