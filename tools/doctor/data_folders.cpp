// Folders with data sets: --data, or where programs look by default; what each host sees there, and
// whether it may read it.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "core/descriptor.hpp"
#include "core/printable.hpp"
#include "core/system_error.hpp"
#include "dataset/catalog.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* data_title = "data";

// Why a file's first byte cannot be read; empty if it can.
std::string obstacle(const fs::path& file) {
  char byte = 0;
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened || ::read(opened.get(), &byte, 1) < 0) return last_system_error().message();
  return "";
}

// Counts and tries the files below a folder, as many as it can within a second.
json survey(const fs::path& folder) {
  json found = {{"path", folder.string()},
                {"files", 0},
                {"bytes", 0},
                {"is_partial", false},
                {"problem", ""}};
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t files = 0, bytes = 0;
  std::error_code error;
  // lost+found of a disk, for example, is for root alone.
  fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied,
                                        error),
      end;
  for (; !error && each != end; each.increment(error)) {
    std::error_code ignored;
    if (!each->is_regular_file(ignored)) continue;
    ++files;
    bytes += static_cast<std::int64_t>(each->file_size(ignored));
    if (const std::string why = obstacle(each->path()); !why.empty() && found["problem"] == "")
      found["problem"] = fmt::format("{}: {}", each->path().string(), why);
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(1)) {
      found["is_partial"] = true;
      break;
    }
  }
  if (error) found["problem"] = fmt::format("{}: {}", folder.string(), error.message());
  found["files"] = files;
  found["bytes"] = bytes;
  return found;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

json look_at_data(const Place& place) {
  json facts = {{"named", json::object()}, {"sets", json::object()}};
  if (place.settings.data) {
    facts["named"]["--data"] = survey(*place.settings.data);
    return facts;
  }
  if (const char* const folder = std::getenv("TASUKI_DATA"); folder != nullptr && *folder != '\0')
    facts["named"]["TASUKI_DATA"] = survey(folder);
  for (const std::string& name : dataset_names())
    for (const fs::path& folder : default_data_folders(name))
      if (is_folder(folder)) {
        facts["sets"][name] = survey(folder);
        break;
      }
  return facts;
}

std::string size_of(const json& folder) {
  return fmt::format("{}{}, {}", folder.at("is_partial").get<bool>() ? "more than " : "",
                     counted(folder.at("files"), "file"), size_text(folder.at("bytes")));
}

// What a flag or variable names. Only rank 0 reads most data sets.
void judge_named(const Seen& seen, const Seen& first, const std::string& origin, Report& report) {
  const json& own = seen.facts.at("named").at(origin);
  const std::string path = own.at("path"), problem = own.at("problem");
  const std::set<int> host = report.host_of(seen.rank);
  const bool is_reader = host.contains(0);
  if (!problem.empty() || own.at("files") == 0) {
    const std::string found =
        fmt::format("{}: {}", origin, problem.empty() ? path + " has no files" : problem);
    if (is_reader)
      report.fail(data_title, host, found,
                  "correct the path or its permissions; scripts/get_data.sh fetches data sets");
    else
      report.warn(data_title, host, found,
                  "train_imagenet reads on each host: mount the same folder there (NFS), or copy "
                  "it; other programs read on rank 0's host alone");
    return;
  }
  const json& named = first.facts.at("named");
  if (named.contains(origin) && !own.at("is_partial").get<bool>() &&
      !named.at(origin).at("is_partial").get<bool>() && named.at(origin).at("problem") == "" &&
      size_of(named.at(origin)) != size_of(own)) {
    report.warn(data_title, host,
                fmt::format("{}: {} has {} there, and {} on {}", origin, path, size_of(own),
                            size_of(named.at(origin)), report.where(report.host_of(first.rank))),
                "copy the folder again, or mount the same one on all hosts (NFS)");
    return;
  }
  report.ok(data_title, host, fmt::format("{}: {} ({})", origin, path, size_of(own)));
}

void judge_sets(const Seen& seen, Report& report) {
  const std::set<int> host = report.host_of(seen.rank);
  std::vector<std::string> texts;
  for (const auto& [name, folder] : seen.facts.at("sets").items()) {
    const std::string path = folder.at("path"), problem = folder.at("problem");
    if (!problem.empty())
      report.warn(data_title, host, fmt::format("{}: {}", name, problem),
                  "correct its permissions, or remove what is damaged");
    else
      texts.push_back(fmt::format("{} in {} ({})", name, path, size_of(folder)));
  }
  if (!texts.empty())
    report.ok(data_title, host, join(texts, "; "));
  else if (host.contains(0) && seen.facts.at("sets").empty())
    report.warn(data_title, host, "no data set where programs look",
                "scripts/get_data.sh mnist, or give programs a folder: --data DIR");
}

void judge_data(const std::vector<Seen>& seen, const Settings& settings, Report& report) {
  for (const Seen& each : seen) {
    for (const auto& [origin, folder] : each.facts.at("named").items())
      judge_named(each, seen.front(), origin, report);
    if (!settings.data) judge_sets(each, report);
  }
}

}  // namespace

const Check data_check = {data_title, true, look_at_data, judge_data};

}  // namespace tasuki::doctor
