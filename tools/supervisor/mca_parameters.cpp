#include "tools/supervisor/mca_parameters.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "core/text_parts.hpp"
#include "tools/supervisor/program.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "mca-params.conf";

std::string trim(const std::string& text) {
  constexpr const char* blanks = " \t\r";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> flags) {
  const auto begin = word.find_first_not_of('-');
  return begin != 0 && begin != std::string::npos && begin <= 2 &&
         std::ranges::find(flags, std::string_view(word).substr(begin)) != flags.end();
}

struct Names {
  std::string_view orte, prrte;  // empty: PRRTE has no parameter like it
};

constexpr auto runtime_parameters = std::to_array<Names>({
    {"odls_base_sigkill_timeout", ""},
    {"oob_tcp_if_exclude", "prte_if_exclude"},
    {"oob_tcp_if_include", "prte_if_include"},
    {"oob_tcp_keepalive_intvl", "oob_tcp_keepalive_intvl"},
    {"oob_tcp_keepalive_probes", "oob_tcp_keepalive_probes"},
    {"oob_tcp_keepalive_time", "oob_tcp_keepalive_time"},
    {"orte_default_hostfile", "prte_default_hostfile"},
    {"orte_keep_fqdn_hostnames", "prte_keep_fqdn_hostnames"},
    {"orte_launch_agent", "prte_launch_agent"},
    {"orte_local_tmpdir_base", "prte_local_tmpdir_base"},
    {"orte_tmpdir_base", "prte_tmpdir_base"},
    {"plm_rsh_agent", "plm_ssh_agent"},
    {"plm_rsh_args", "plm_ssh_args"},
});

// By either name; nullptr: a parameter of MPI's, which has one name in both.
const Names* names_of(std::string_view name) {
  const auto found = std::ranges::find_if(runtime_parameters, [name](const Names& names) {
    return name == names.orte || name == names.prrte;
  });
  return found == runtime_parameters.end() ? nullptr : &*found;
}

// The files of --tune and --am, separated by commas.
std::vector<fs::path> files_in(const std::vector<std::string>& words) {
  std::vector<fs::path> files;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (!is_one_of(words[i], {"tune", "am"})) continue;
    for (std::string& name : text_parts(words[i + 1], ','))
      if (!name.empty()) files.emplace_back(std::move(name));
  }
  return files;
}

// Empty if it does not exist.
fs::path find_system_file(const std::string& name, const std::string& mpirun) {
  std::error_code not_there;
  const bool is_path = mpirun.find('/') != std::string::npos;
  const fs::path program = fs::canonical(is_path ? mpirun : find_in_path(mpirun), not_there);
  const fs::path prefix = program.parent_path().parent_path();
  if (fs::path file = prefix / "etc" / name; fs::exists(file, not_there)) return file;
  // Debian's package.
  if (fs::path file = fs::path("/etc/openmpi") / name;
      prefix == "/usr" && fs::exists(file, not_there))
    return file;
  return {};
}

}  // namespace

std::vector<std::string> words_to_set(MpiRuntime runtime, const std::string& name,
                                      const std::string& value) {
  const Names* const names = runtime == MpiRuntime::prrte ? names_of(name) : nullptr;
  if (names == nullptr) return {"--mca", name, value};
  if (names->prrte.empty()) return {};
  return {"--prtemca", std::string(names->prrte), value};
}

std::vector<std::pair<std::string, std::string>> read_mca_file(const fs::path& file) {
  std::vector<std::pair<std::string, std::string>> settings;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const auto equals = line.find('=');
    const std::string name = trim(line.substr(0, equals));
    if (equals == std::string::npos || name.empty() || name.front() == '#') continue;
    settings.emplace_back(name, trim(line.substr(equals + 1)));
  }
  return settings;
}

std::vector<fs::path> find_mca_files(MpiRuntime runtime, const std::string& mpirun) {
  std::vector<fs::path> files;
  const char* const home = std::getenv("HOME");
  const auto add = [&](const char* folder_of_user, const char* prefix) {
    if (home != nullptr) files.push_back(fs::path(home) / folder_of_user / file_name);
    files.push_back(find_system_file(std::string(prefix) + file_name, mpirun));
  };
  add(".openmpi", "openmpi-");
  if (runtime == MpiRuntime::prrte) add(".prte", "prte-");
  std::error_code not_there;
  std::erase_if(files, [&](const fs::path& file) { return !fs::exists(file, not_there); });
  return files;
}

fs::path find_default_hostfile(MpiRuntime runtime, const std::string& mpirun) {
  return find_system_file(
      runtime == MpiRuntime::prrte ? "prte-default-hostfile" : "openmpi-default-hostfile", mpirun);
}

McaParameters::McaParameters(std::vector<std::string> launcher_words,
                             const std::vector<fs::path>& files, MpiRuntime runtime)
    : runtime_(runtime), words_(std::move(launcher_words)) {
  std::vector<fs::path> all = files_in(words_);
  all.insert(all.end(), files.begin(), files.end());
  for (const fs::path& file : all)
    for (auto& setting : read_mca_file(file)) in_files_.push_back(std::move(setting));
}

std::optional<std::string> McaParameters::find_given(std::string_view name) const {
  for (std::size_t i = 0; i + 2 < words_.size(); ++i)
    if (is_one_of(words_[i], {"mca", "gmca", "omca", "gomca", "prtemca", "gprtemca"}) &&
        words_[i + 1] == name)
      return words_[i + 2];
  const bool is_prrtes = runtime_ == MpiRuntime::prrte && names_of(name) != nullptr;
  const std::string variable = fmt::format("{}_MCA_{}", is_prrtes ? "PRTE" : "OMPI", name);
  if (const char* value = std::getenv(variable.c_str())) return value;
  return std::nullopt;
}

std::optional<std::string> McaParameters::find_in_files(std::string_view name) const {
  const auto found =
      std::ranges::find(in_files_, name, &std::pair<std::string, std::string>::first);
  if (found == in_files_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> McaParameters::find(
    std::initializer_list<std::string_view> names) const {
  std::vector<std::string_view> given_names = names, names_in_files = names;
  if (runtime_ == MpiRuntime::prrte)
    for (std::string_view& name : names_in_files)
      if (const Names* const both = names_of(name); both != nullptr && !both->prrte.empty()) {
        given_names.push_back(both->orte);  // --mca takes it as well
        given_names.push_back(both->prrte);
        name = both->prrte;
      }
  for (const std::string_view name : given_names)
    if (auto value = find_given(name)) return value;
  for (const std::string_view name : names_in_files)
    if (auto value = find_in_files(name)) return value;
  return std::nullopt;
}

}  // namespace tasuki::supervisor
