// GPUs, NVIDIA's driver and libraries, and Tasuki's part for GPUs.

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tensor/cuda_loading/nvidia_libraries.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

// Whether the kernel has NVIDIA's module and a device, usable or not.
bool has_devices() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidia0", ignored) ||
         std::filesystem::exists("/proc/driver/nvidia/version", ignored);
}

json look_at_gpus(const Place&) {
  json facts = {{"has_devices", has_devices()}, {"gpus", json::array()}, {"problem", ""}};
  try {
    for (const Gpu& gpu : visible_gpus()) facts["gpus"].push_back(gpu.name);
  } catch (const Error& error) {
    facts["problem"] = error.what();
  }
  for (const NvidiaLibrary& each : find_nvidia_libraries())
    facts["libraries"].push_back(
        {{"name", each.name}, {"version", each.version}, {"problem", each.problem}});
  return facts;
}

// "2 x NVIDIA H100"
std::string gpus_text(const json& gpus) {
  std::map<std::string, int> counts;
  for (const json& gpu : gpus) ++counts[gpu.get<std::string>()];
  std::vector<std::string> texts;
  texts.reserve(counts.size());
  for (const auto& [name, count] : counts) texts.push_back(fmt::format("{} x {}", count, name));
  return join(texts, ", ");
}

void judge_libraries(const Seen& seen, const std::set<int>& host, Report& report) {
  std::vector<std::string> loaded, others;
  for (const json& each : seen.facts.at("libraries")) {
    const std::string name = each.at("name"), version = each.at("version");
    if (version.empty())
      others.push_back(fmt::format("{}: {}", name, each.at("problem").get<std::string>()));
    else
      loaded.push_back(fmt::format("{} {}", name, version));
  }
  std::string text = loaded.empty() ? "none of NVIDIA's" : join(loaded, ", ");
  if (!others.empty()) text += " (" + join(others, "; ") + ")";
  if (others.empty() || !seen.facts.at("has_devices").get<bool>())
    report.ok("GPU libraries", host, text);
  else
    report.warn("GPU libraries", host, text,
                "install those that are not loaded, or add their folders to LD_LIBRARY_PATH");
}

void judge_gpus(const std::vector<Seen>& seen, const Settings&, Report& report) {
  for (const Seen& each : seen) {
    const std::set<int> host = report.host_of(each.rank);
    const json& gpus = each.facts.at("gpus");
    const std::string problem = each.facts.at("problem");
    const bool has_devices = each.facts.at("has_devices");
    if (!problem.empty() && has_devices)
      report.warn("GPUs", host, "there are some, but " + problem, "--gpu works after that");
    else if (!problem.empty())
      report.ok("GPUs", host, "none: " + problem);
    else if (gpus.size() < host.size())
      report.warn("GPUs", host,
                  fmt::format("{} for {}", gpus_text(gpus),
                              counted(static_cast<std::int64_t>(host.size()), "rank")),
                  fmt::format("start {} there, or let ranks share GPUs: --share-gpu",
                              counted(static_cast<std::int64_t>(gpus.size()), "rank")));
    else
      report.ok("GPUs", host,
                fmt::format("{} for {}", gpus_text(gpus),
                            counted(static_cast<std::int64_t>(host.size()), "rank")));
    judge_libraries(each, host, report);
  }
}

}  // namespace

const Check gpu_check = {"gpus", true, look_at_gpus, judge_gpus};

}  // namespace tasuki::doctor
