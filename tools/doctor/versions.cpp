// Versions of Tasuki and of the libraries that it computes and communicates with.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include <algorithm>
#include <array>

#include "communicator/gpu/mpi_on_gpus.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi/open_mpi.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "program/start/processors.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/instruction_set.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

// All that the library says of itself, in one line: Open MPI its packager, MPICH its device and how
// it was configured.
std::string about_mpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;  // some count the end of the text
  TASUKI_MPI(MPI_Get_library_version, text.data(), &length);
  std::string all = text.data();
  std::ranges::replace(all, '\n', ' ');
  std::ranges::replace(all, '\t', ' ');
  constexpr std::size_t most = 120;
  return printable(all, most);
}

const char* thread_level() {
  int level = MPI_THREAD_SINGLE;
  TASUKI_MPI(MPI_Query_thread, &level);
  return level == MPI_THREAD_MULTIPLE ? "any thread may call it" : "one thread at a time calls it";
}

json look_at_versions(const Place&) {
  return {{"version", version()},
          {"builds", loaded_builds()},
          {"mpi", mpi_library_name()},
          {"about_mpi", about_mpi()},
          {"threads", thread_level()},
          {"gpu_memory", mpi_reduces_gpu_memory(DType::float32)},
          {"cpu", backend(Device::cpu()).describe()},
          {"instructions", instruction_set()},
          {"hwloc", program::hwloc_version()}};
}

// The builds of Tasuki's program and libraries that another rank does not have, and those that only
// it has.
std::string difference(const json& own, const json& other) {
  std::vector<std::string> lines;
  if (own.at("version") != other.at("version"))
    lines.push_back(fmt::format("Tasuki {}, and not {}", own.at("version").get<std::string>(),
                                other.at("version").get<std::string>()));
  const auto builds = own.at("builds").get<std::vector<std::string>>();
  const auto others = other.at("builds").get<std::vector<std::string>>();
  for (const std::string& build : builds)
    if (std::ranges::find(others, build) == others.end()) lines.push_back(build);
  for (const std::string& build : others)
    if (std::ranges::find(builds, build) == builds.end()) lines.push_back("not " + build);
  return join(lines, ", ");
}

void judge_tasuki(const std::vector<Seen>& seen, Report& report) {
  const Seen& first = seen.front();
  for (const Seen& each : seen) {
    const bool is_same = each.facts.at("version") == first.facts.at("version") &&
                         each.facts.at("builds") == first.facts.at("builds");
    if (is_same)
      report.ok("Tasuki", {each.rank}, each.facts.at("version"));
    else
      report.fail("Tasuki", {each.rank},
                  fmt::format("another build than on {}: {}", report.where({first.rank}),
                              difference(each.facts, first.facts)),
                  "install one build at the same path on all hosts, or share its folder");
  }
}

void judge_mpi(const std::vector<Seen>& seen, Report& report) {
  const Seen& first = seen.front();
  for (const Seen& each : seen) {
    const json& facts = each.facts;
    const std::string name = facts.at("mpi");
    const std::string built_for = fmt::format("Open MPI v{}.", open_mpi_version);
    if (facts.at("mpi") != first.facts.at("mpi"))
      report.fail("MPI", {each.rank},
                  fmt::format("{}, and {} on {}", name, first.facts.at("mpi").get<std::string>(),
                              report.where({first.rank})),
                  "install the same MPI on all hosts");
    else if (open_mpi_version > 0 && !name.starts_with(built_for))
      report.fail("MPI", {each.rank},
                  fmt::format("Tasuki was built for {}x, but {} is loaded", built_for, name),
                  "build Tasuki again, or put the right library first in LD_LIBRARY_PATH");
    else
      report.ok("MPI", {each.rank},
                fmt::format("{}; {}; {}", facts.at("about_mpi").get<std::string>(),
                            facts.at("threads").get<std::string>(),
                            facts.at("gpu_memory").get<bool>()
                                ? "works on GPU memory"
                                : "does not work on GPU memory, or does not tell"));
  }
}

void judge_versions(const std::vector<Seen>& seen, const Settings&, Report& report) {
  judge_tasuki(seen, report);
  judge_mpi(seen, report);
  for (const Seen& each : seen)
    report.ok("libraries", {each.rank},
              fmt::format("{} with instructions up to {}, hwloc {}",
                          each.facts.at("cpu").get<std::string>(),
                          each.facts.at("instructions").get<std::string>(),
                          each.facts.at("hwloc").get<std::string>()));
}

}  // namespace

// The check of GPUs loads a library of Tasuki, on one rank of a host alone.
const Check version_check = {"versions", false, look_at_versions, judge_versions,
                             /*looks_first=*/true};

}  // namespace tasuki::doctor
