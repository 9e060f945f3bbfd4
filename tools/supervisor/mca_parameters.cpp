#include "tools/supervisor/mca_parameters.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

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

// The files of --tune and --am, separated by commas.
std::vector<fs::path> files_in(const std::vector<std::string>& words) {
  std::vector<fs::path> files;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (!is_one_of(words[i], {"tune", "am"})) continue;
    std::istringstream names(words[i + 1]);
    for (std::string name; std::getline(names, name, ',');) files.emplace_back(name);
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

std::vector<fs::path> find_mca_files(const std::string& mpirun) {
  std::vector<fs::path> files;
  if (const char* home = std::getenv("HOME"); home != nullptr)
    files.push_back(fs::path(home) / ".openmpi" / file_name);
  files.push_back(find_system_file(std::string("openmpi-") + file_name, mpirun));
  std::error_code not_there;
  std::erase_if(files, [&](const fs::path& file) { return !fs::exists(file, not_there); });
  return files;
}

fs::path find_default_hostfile(const std::string& mpirun) {
  return find_system_file("openmpi-default-hostfile", mpirun);
}

McaParameters::McaParameters(std::vector<std::string> launcher_words,
                             const std::vector<fs::path>& files)
    : words_(std::move(launcher_words)) {
  std::vector<fs::path> all = files_in(words_);
  all.insert(all.end(), files.begin(), files.end());
  for (const fs::path& file : all)
    for (auto& setting : read_mca_file(file)) in_files_.push_back(std::move(setting));
}

std::optional<std::string> McaParameters::find_given(std::string_view name) const {
  for (std::size_t i = 0; i + 2 < words_.size(); ++i)
    if (is_one_of(words_[i], {"mca", "gmca"}) && words_[i + 1] == name) return words_[i + 2];
  if (const char* value = std::getenv(fmt::format("OMPI_MCA_{}", name).c_str())) return value;
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
  for (const std::string_view name : names)
    if (auto value = find_given(name)) return value;
  for (const std::string_view name : names)
    if (auto value = find_in_files(name)) return value;
  return std::nullopt;
}

}  // namespace tasuki::supervisor
