// McaParameters: Open MPI's settings, as mpirun finds them without what tasuki-run adds.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki::supervisor {

// The lines "name = value" of a file like mca-params.conf, in their order; none if it cannot be
// read.
std::vector<std::pair<std::string, std::string>> read_mca_file(const std::filesystem::path& file);

// The user's file and the system's, as far as they are there: the latter belongs to the Open MPI
// of `mpirun`, a path or a name in PATH.
std::vector<std::filesystem::path> find_mca_files(const std::string& mpirun);
// The hosts that mpirun takes if it is given none; empty if there is no such file.
std::filesystem::path find_default_hostfile(const std::string& mpirun);

class McaParameters {
 public:
  // Words of mpirun's command line (--mca NAME VALUE) win over the environment (OMPI_MCA_NAME),
  // that over files that the words name (--tune FILE), and those over `files`, of which the first
  // that sets a parameter counts.
  explicit McaParameters(std::vector<std::string> launcher_words,
                         const std::vector<std::filesystem::path>& files = {});

  // The value of a parameter by one of its names, which mean the same.
  std::optional<std::string> find(std::initializer_list<std::string_view> names) const;
  // Only from the command line or the environment; only from files.
  std::optional<std::string> find_given(std::string_view name) const;
  std::optional<std::string> find_in_files(std::string_view name) const;

 private:
  std::vector<std::string> words_;
  std::vector<std::pair<std::string, std::string>> in_files_;
};

}  // namespace tasuki::supervisor
