// The contents of an experiment file: a grid of runs.
//
//   program = train_mnist            # beside the experiment program, or a path with a slash
//   np = 1, 2, 4                     # values separated by commas make the grid
//   nodes = 1, 2
//   communicator = flat, two_dimensional
//   epoch = 20                       # every name that is not a key of the experiment is a flag
//
// experiment_help() lists the keys of the experiment itself. `\,` is a comma within a value.
// `[name]` begins a separate experiment; lines before the first section also apply to it, unless it
// sets the same names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki::experiment {

// A name and its values.
struct GridAxis {
  std::string name;
  std::vector<std::string> values;
};

// One point of the grid.
struct RunSettings {
  std::int64_t np = 1, nodes = 1;
  std::int64_t repeat = 1;  // from 1
  // np, nodes and the program's flags, in the order of the file.
  std::vector<std::pair<std::string, std::string>> values;

  // Empty if there is no such name.
  std::string value(std::string_view name) const;
  // The names among `names`, "np 2, communicator flat".
  std::string text(const std::vector<std::string>& names) const;
};

struct ExperimentPlan {
  std::string file;
  std::string section;               // of the file; empty where it has none
  std::map<std::string, int> lines;  // lines of the file that set each name

  std::string title;
  std::string program;
  bool is_program_beside = false;  // it was named without a slash
  // Words before the program, with {np}, {nodes}, {ranks_per_node}, {hostfile} and {FLAG} for a
  // flag of the program; launcher_nodes is for runs on several nodes. If empty, the program is
  // started directly.
  std::string launcher = "mpirun -np {np}";
  std::string launcher_nodes;
  std::string hostfile;
  std::int64_t repeats = 1;
  double timeout = 24 * 3600;  // seconds
  // Runs that differ only in these settings are compared: speed-ups are relative to the first of
  // them.
  std::vector<std::string> compare = {"np", "nodes"};
  std::vector<GridAxis> axes;  // np and nodes among them

  // Names with more than one value, which become columns of the table.
  std::vector<std::string> varying() const;
  // All runs, the last axis changing fastest and repeats innermost. Combinations where np is not a
  // multiple of nodes are left out.
  std::vector<RunSettings> runs() const;
  // The words that start a run whose results go to `out`.
  std::vector<std::string> command(const RunSettings& run, const std::filesystem::path& out) const;
  // The program's part of these words: its name and its flags, without --out.
  std::vector<std::string> program_with_flags(const RunSettings& run) const;
  // "file:line" where `name` is set; "file" if it is not set.
  std::string place_of(const std::string& name) const;
};

// One plan per section, or one for a file without sections. An error of kind config names `file`
// and the line. Programs without a slash are looked for in the folder `beside`.
std::vector<ExperimentPlan> parse_experiments(std::string_view text, const std::string& file,
                                              const std::filesystem::path& beside);

// Names of the settings that are not flags of the program.
std::vector<std::string> experiment_keys();
// These names with their meanings, for --help.
std::string experiment_help();

}  // namespace tasuki::experiment
