// The program that tasuki-run starts, and its flags.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tasuki::supervisor {

struct Program {
  std::vector<std::string> words;  // name and flags, as passed to mpirun
  // The answer to --print-config; empty for a program that does not have the flag.
  std::map<std::string, std::string> config;

  // Whether it is one of Tasuki's programs.
  bool is_known() const { return !config.empty(); }
  // Whether it can resume from what it has saved (--out, --resume).
  bool can_resume() const;
  std::filesystem::path out() const { return config.at("out"); }
  // The file or folder that --resume names; nothing for none or auto.
  std::optional<std::filesystem::path> resumed_from() const;
  // --resume auto was given.
  bool resumes_by_itself() const;
  std::optional<std::int64_t> shards() const;  // of --shards
  bool keeps_global_batch() const;             // --global-batch was given

  // The words of a later start, which uses the same folder.
  std::vector<std::string> words_to_continue(const std::filesystem::path& folder,
                                             bool has_saved) const;
};

// Resolves `name`: a path, a program in PATH, or else a program beside tasuki-run. An error of kind
// missing if it cannot be started.
std::string find_program(const std::string& name);
// Empty if it does not exist.
std::string find_in_path(const std::string& name);

// A program that has answered instead of starting: to --help, or with an error.
struct Answered {
  int exit_code = 0;
  std::string out, err;
};

struct CheckedProgram {
  Program program;
  std::optional<Answered> answered;
};
// Asks one of Tasuki's programs for its settings, as a single process; other programs are not
// asked. An error of kind hang if it does not answer. `is_interrupted`: whether this process is
// asked to end, which also ends the program that is asked.
CheckedProgram check_program(const std::vector<std::string>& words,
                             const std::function<bool()>& is_interrupted);

}  // namespace tasuki::supervisor
