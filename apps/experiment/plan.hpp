// What an experiment file asks for: a grid of runs.
//
//   program = train_mnist            # beside the experiment program, or a path with a slash
//   np = 1, 2, 4                     # values separated by commas make the grid
//   nodes = 1, 2
//   communicator = flat, two_dimensional
//   epoch = 20                       # every name that is no key of the experiment is a flag
//
// experiment_help() lists the keys of the experiment itself. `\,` is a comma that is part of a
// value.
// `[name]` begins an experiment of its own, for which the lines before the first section hold, too,
// but where it sets their names itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki::experiment {

// A name and the values it takes.
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

  // Empty when there is no such name.
  std::string value(std::string_view name) const;
  // The names among `names`, "np 2, communicator flat".
  std::string text(const std::vector<std::string>& names) const;
};

struct ExperimentPlan {
  std::string file;
  std::string section;               // of the file; empty where it has none
  std::map<std::string, int> lines;  // of the file, in which names are set

  std::string title;
  std::string program;
  bool is_program_beside = false;  // it was named without a slash
  // Words before the program, with {np}, {nodes}, {ranks_per_node}, {hostfile} and {flag of the
  // program}; launcher_nodes is for runs on several nodes. An empty one starts the program itself.
  std::string launcher = "mpirun -np {np}";
  std::string launcher_nodes;
  std::string hostfile;
  std::int64_t repeats = 1;
  double timeout = 24 * 3600;  // seconds
  // Runs that differ only in these are compared: speed-ups are relative to the first of them.
  std::vector<std::string> compare = {"np", "nodes"};
  std::vector<GridAxis> axes;  // np and nodes among them

  // Names with more than one value: what a table has columns for.
  std::vector<std::string> varying() const;
  // All runs, the last axis changing fastest and repeats innermost. Combinations in which np is not
  // a multiple of nodes are left out.
  std::vector<RunSettings> runs() const;
  // The words that start a run whose results go to `out`.
  std::vector<std::string> command(const RunSettings& run, const std::filesystem::path& out) const;
  // The words of these that are the program's: itself and its flags, but for --out.
  std::vector<std::string> program_with_flags(const RunSettings& run) const;
  // "file:line" where `name` is set; "file" where it is not.
  std::string place_of(const std::string& name) const;
};

// One for each section of a file, or one for a file without. An error of kind config names `file`
// and the line. `beside` is the folder in which programs without a slash are found.
std::vector<ExperimentPlan> parse_experiments(std::string_view text, const std::string& file,
                                              const std::filesystem::path& beside);

// Names of the settings that are not flags of the program.
std::vector<std::string> experiment_keys();
// These with what they mean, for --help.
std::string experiment_help();

}  // namespace tasuki::experiment
