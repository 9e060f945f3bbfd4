// Flags that every program has.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tasuki::program::builtin {

struct Flag {
  std::string_view name;
  char letter;
  std::string_view value_name;  // empty: takes none
  std::string_view help;
  bool value_may_miss = false;
};

inline constexpr std::string_view help = "help", version = "version", config = "config",
                                  print_config = "print-config";

inline constexpr std::array<Flag, 4> flags = {
    {{help, 'h', "WORD",
      "print the most common flags; `all`: every flag; `man`: a manual page; `bash`: a file for "
      "bash-completion; another WORD: the flags with WORD in their name, text or group",
      true},
     {version, 0, "", "print the versions of Tasuki and of its libraries"},
     {config, 0, "FILE",
      "read settings from an INI file: long flag names, one `name = value` per line; the command "
      "line wins"},
     {print_config, 0, "",
      "print all settings and their sources in the form that --config reads"}}};

}  // namespace tasuki::program::builtin

namespace tasuki::program {

// Versions of Tasuki and its libraries, for records and bug reports: "Tasuki 0.1.0 (5ad6af21),
// oneDNN 2.6.0 (OMP), Open MPI v4.1.4".
std::string describe_versions();
// What --version prints: several lines, the first "<program> (Tasuki) <version>".
std::string version_text(const std::string& program);

}  // namespace tasuki::program
