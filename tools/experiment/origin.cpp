#include "tools/experiment/origin.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/file.hpp"
#include "core/json.hpp"
#include "program/report/about.hpp"

namespace tasuki::experiment {
namespace {

std::string text_of(const RunOrigin& origin, bool with_gpu) {
  if (origin.version.empty()) return "not recorded";
  std::string text = fmt::format("{}; {}; data in {}", origin.version, origin.machine, origin.data);
  if (with_gpu && !origin.gpu.empty()) text += "; " + origin.gpu;
  return text;
}

}  // namespace

std::optional<RunOrigin> read_origin(const std::filesystem::path& folder) {
  const auto file = folder / program::about_file;
  const auto text = read_file_if_there(file);
  if (!text) return std::nullopt;
  try {
    const auto about = parse_json(*text, file.string());
    RunOrigin origin{about.at("version"),
                     about.at("host"),
                     about.at("machine"),
                     "",
                     about.at("data"),
                     about.at("global_batch").get<double>(),
                     about.value("oversubscribed", false)};
    const std::string device = about.at("device");
    if (device.find("cuda") != std::string::npos) origin.gpu = device;
    return origin;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "{} does not describe the run: {}", file.string(), error.what());
  }
}

std::vector<AlikeRows> group_by_origin(const std::vector<std::vector<RunOrigin>>& origins) {
  std::set<std::string> gpus;
  for (const auto& row : origins)
    for (const RunOrigin& origin : row)
      if (!origin.gpu.empty()) gpus.insert(origin.gpu);
  std::vector<AlikeRows> groups;
  for (std::size_t row = 0; row < origins.size(); ++row) {
    for (const RunOrigin& origin : origins[row]) {
      const std::string text = text_of(origin, gpus.size() > 1);
      auto group = std::ranges::find(groups, text, &AlikeRows::text);
      if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
      const int number = static_cast<int>(row) + 1;
      if (group->rows.empty() || group->rows.back() != number) group->rows.push_back(number);
    }
  }
  return groups;
}

}  // namespace tasuki::experiment
