// Says where two runs part, and by how much.
//
//   build/apps/tasuki-diff result result-2

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/named_file.hpp"
#include "program/flags/options.hpp"
#include "run_tool.hpp"
#include "saving/saved_states.hpp"
#include "tools/diff/report.hpp"
#include "tools/take_words.hpp"

namespace tasuki::diff {
namespace {

namespace fs = std::filesystem;
using program::Options;

// Else it is a snapshot, a checkpoint or a model file.
bool is_output_folder(const fs::path& path) {
  return fs::is_directory(status_of(path)) && !is_checkpoint(path);
}

int run(int argc, char** argv) {
  bool all = false;
  Options options("tasuki-diff",
                  "says where two runs part, and by how much: RUN RUN are output folders, or two "
                  "snapshots, checkpoints or model files. Exit code 0: no difference found; 1: "
                  "they differ",
                  "tasuki-diff result result-2");
  options.group("Output");
  options.add("all", all, "list every setting, value and array that differs");
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> words = take_words(arguments);
  const Options::Request request = options.parse(arguments);
  if (request != Options::Request::run) {
    fmt::print("{}", options.text(request));
    return 0;
  }
  if (words.size() != 2)
    fail(ErrorKind::usage, "expected two output folders or two files before the flags, found {}",
         words.size());
  const fs::path a = words[0], b = words[1];
  for (const fs::path& path : {a, b})
    if (!fs::exists(status_of(path))) fail(ErrorKind::missing, "there is no {}", path.string());
  if (is_output_folder(a) != is_output_folder(b))
    fail(ErrorKind::usage, "{} and {}: expected two output folders or two files, found one of each",
         a.string(), b.string());
  const Report report = is_output_folder(a) ? compare_runs(a, b, all) : compare_files(a, b, all);
  fmt::print("{}", report.text);
  return report.differs ? 1 : 0;
}

}  // namespace
}  // namespace tasuki::diff

int main(int argc, char** argv) {
  return tasuki::run_tool([&] { return tasuki::diff::run(argc, argv); });
}
