// Memory of a host, and what its ranks share.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "communicator/mpi/open_mpi.hpp"
#include "core/descriptor.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"
#include "tensor/host_memory.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* shared_folder = "/dev/shm";

json look_at_memory(const Place&) {
  const HostMemory memory = find_host_memory();
  return {{"free", memory.free},
          {"total", memory.total},
          {"machine", static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<double>(sysconf(_SC_PAGESIZE))}};
}

void judge_memory(const std::vector<Seen>& seen, const Settings&, Report& report) {
  for (const Seen& each : seen) {
    const std::set<int> host = report.host_of(each.rank);
    const double free = each.facts.at("free"), total = each.facts.at("total"),
                 machine = each.facts.at("machine");
    std::string text = fmt::format("{} of {} free", size_text(free), size_text(total));
    if (total < 0.99 * machine)
      text += fmt::format(", by a limit (control group, ulimit); the machine has {}",
                          size_text(machine));
    // A small network with its optimizer, data and libraries.
    constexpr double enough = double{512 << 20}, least = 2 * double{host_memory_reserve};
    const double share = free / static_cast<double>(host.size());
    const std::string remedy =
        "end other programs, raise the limit (docker run --memory, Kubernetes' limits.memory, "
        "ulimit -v), or start fewer ranks there";
    if (share < least)
      report.fail("memory", host, text, remedy);
    else if (share < enough)
      report.warn("memory", host, text, remedy);
    else
      report.ok("memory", host, text);
  }
}

// Makes, and gives back, a segment of this size, as Open MPI does; why that fails, or nothing.
std::string try_segment(std::size_t bytes) {
  const std::string path = temporary_name(fs::path(shared_folder) / "tasuki-doctor");
  const Descriptor file(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return last_system_error().message();
  ::unlink(path.c_str());
  const int code = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  return code == 0 ? "" : std::generic_category().message(code);
}

json look_at_shared(const Place&) {
  json facts = {{"problem", try_segment(shared_memory_of_rank / 2)}};
  struct statvfs space {};
  if (statvfs(shared_folder, &space) != 0) {
    facts["missing"] = last_system_error().message();
    return facts;
  }
  const auto block = static_cast<double>(space.f_frsize);
  facts["size"] = static_cast<double>(space.f_blocks) * block;
  facts["free"] = static_cast<double>(space.f_bavail) * block;
  return facts;
}

void judge_shared(const std::vector<Seen>& seen, const Settings&, Report& report) {
  constexpr const char* enlarge = "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm";
  for (const Seen& each : seen) {
    const std::set<int> host = report.host_of(each.rank);
    const json& facts = each.facts;
    const std::string problem = facts.at("problem");
    if (facts.contains("missing")) {
      report.fail(
          "shared memory", host,
          fmt::format("there is no {} ({})", shared_folder, facts.at("missing").get<std::string>()),
          "mount -t tmpfs -o size=1g tmpfs /dev/shm");
      continue;
    }
    const double size = facts.at("size"), free = facts.at("free");
    const std::string text =
        fmt::format("{} of {} free in {}", size_text(free), size_text(size), shared_folder);
    const double needed =
        static_cast<double>(shared_memory_of_rank) * static_cast<double>(host.size());
    if (!problem.empty())
      report.fail("shared memory", host,
                  fmt::format("{}; no segment of {} can be made: {}", text,
                              size_text(shared_memory_of_rank / 2.), problem),
                  enlarge);
    else if (size < needed)
      report.warn(
          "shared memory", host,
          fmt::format("{}; {} of this MPI may need {}", text,
                      counted(static_cast<std::int64_t>(host.size()), "rank"), size_text(needed)),
          enlarge);
    else
      report.ok("shared memory", host, text + "; a segment was made");
  }
}

}  // namespace

const Check memory_check = {"memory", true, look_at_memory, judge_memory, /*looks_first=*/true};
const Check shared_memory_check = {"shared memory", true, look_at_shared, judge_shared};

}  // namespace tasuki::doctor
