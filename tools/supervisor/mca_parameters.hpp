// McaParameters: Open MPI's settings as mpirun finds them, before tasuki-run adds its own.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/supervisor/mpi_runtime.hpp"

namespace tasuki::supervisor {

// A parameter of ORTE's as words of the command line: {"--mca", "plm_rsh_args", value}; with
// PRRTE's name and flag, {"--prtemca", "plm_ssh_args", value}, or none if PRRTE does not have it.
std::vector<std::string> words_to_set(MpiRuntime runtime, const std::string& name,
                                      const std::string& value);

// The lines "name = value" of a file like mca-params.conf, in order; none if it cannot be read.
std::vector<std::pair<std::string, std::string>> read_mca_file(const std::filesystem::path& file);

// The user's files and the system's, if they exist: the latter belong to the Open MPI of `mpirun`,
// a path or a name in PATH.
std::vector<std::filesystem::path> find_mca_files(MpiRuntime runtime, const std::string& mpirun);
// The file of hosts that mpirun uses by default; empty if there is none.
std::filesystem::path find_default_hostfile(MpiRuntime runtime, const std::string& mpirun);

class McaParameters {
 public:
  // In descending order of precedence: words of mpirun's command line (--mca NAME VALUE), the
  // environment (OMPI_MCA_NAME), files that the words name (--tune FILE), and `files`, the first
  // that sets a parameter. With PRRTE also --prtemca, and for its own parameters PRTE_MCA_NAME in
  // place of OMPI_MCA_NAME.
  explicit McaParameters(std::vector<std::string> launcher_words,
                         const std::vector<std::filesystem::path>& files = {},
                         MpiRuntime runtime = MpiRuntime::orte);

  // The value of a parameter, under any of its synonymous names; with PRRTE also under its name
  // there, and in files under that name alone. mpirun 5.0.7 reads them so.
  std::optional<std::string> find(std::initializer_list<std::string_view> names) const;
  // Only from the command line or the environment; only from files.
  std::optional<std::string> find_given(std::string_view name) const;
  std::optional<std::string> find_in_files(std::string_view name) const;

 private:
  MpiRuntime runtime_;
  std::vector<std::string> words_;
  std::vector<std::pair<std::string, std::string>> in_files_;
};

}  // namespace tasuki::supervisor
