// Version, machine and data of a run, and whether all rows of a table have the same ones.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tasuki::experiment {

// The program's own report (program/report/about.hpp). Members that older versions did not record
// are empty.
struct RunOrigin {
  std::string version;                 // of Tasuki and the libraries under it
  std::string host, machine;           // of rank 0
  std::string gpu;                     // of rank 0; empty on CPUs
  std::string data;                    // folder
  std::optional<double> global_batch;  // examples of a step on all ranks
  bool oversubscribed = false;         // a machine had fewer cores than computing threads
};

// Reads the origin of the run whose results are in `folder`; nothing if the program did not report
// it. An error of kind data says what is wrong with the report.
std::optional<RunOrigin> read_origin(const std::filesystem::path& folder);

// Rows, counted from 1, with the same version, kind of machine and data. Host names do not count,
// because runs on several nodes may start on any of them.
struct AlikeRows {
  std::string text;  // version, machine and data
  std::vector<int> rows;
};
// Groups rows by origin. `origins`: for each row, the origins of its finished repeats. More than
// one group means a mixture; a row whose repeats differ is in several groups. A GPU differs from
// another GPU but not from a CPU, because a grid may compare the two.
std::vector<AlikeRows> group_by_origin(const std::vector<std::vector<RunOrigin>>& origins);

}  // namespace tasuki::experiment
