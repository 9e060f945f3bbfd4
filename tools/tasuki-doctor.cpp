// Says what is wrong with a machine or a cluster before a training does.
//
//   tasuki-doctor --out result
//   tasuki-run --hostfile hostfiles/two_nodes tasuki-doctor
//   mpirun -np 4 tasuki-doctor --quick --json

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"
#include "communicator/registry.hpp"
#include "core/json.hpp"
#include "core/version.hpp"
#include "job/run_job.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/rank_setup.hpp"
#include "tools/doctor/bounded.hpp"
#include "tools/doctor/check.hpp"
#include "tools/doctor/clocks.hpp"
#include "tools/doctor/links.hpp"
#include "tools/doctor/output_check.hpp"
#include "tools/run_tool.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A rank that does not start or does not answer ends the job soon, not after a training's five
// minutes.
constexpr program::StallSettings short_stalls = {.warning = 15, .timeout = 60, .silence = 15};

program::Options make_options(Settings& settings, program::StallSettings& stalls) {
  program::Options options("tasuki-doctor",
                           "says what is wrong with this machine or cluster, and what to do",
                           "tasuki-run --hostfile hostfiles/two_nodes tasuki-doctor --out result");
  options.group("What to look at");
  options
      .add("out,o", settings.out, "none", "DIR",
           "the output folder of a run: whether it can be written, how fast, and which hosts see "
           "it; nothing stays in it")
      .in_short("try this output folder");
  options
      .add("data", settings.data, "none", "DIR",
           "the folder of a data set: whether hosts see and may read it; by default, the folders "
           "where programs look")
      .in_short("look at this data folder");
  options.group("How");
  options
      .add("quick", settings.is_quick,
           "do not measure links between hosts, nor the speed of the output folder")
      .in_short("leave out long measurements");
  options.add("json", settings.wants_json, "print one JSON object in place of lines")
      .in_short("print one JSON object");
  program::add_stall_flags(options, stalls);
  return options;
}

// The flags of rank 0 count, so that all ranks take part in the same checks.
std::vector<std::string> flags_of_root(Communicator& communicator, int argc, char** argv) {
  const std::vector<std::string> own(argv + std::min(argc, 1), argv + argc);
  return bcast_object(communicator, own).get<std::vector<std::string>>();
}

// What this rank has seen, by the names of checks.
json look(const Settings& settings, const Topology& topology) {
  constexpr double longest = 10;  // seconds
  const auto place_data = std::make_shared<std::pair<Settings, Topology>>(settings, topology);
  std::map<std::string, Work> first, others;
  for (const Check& check : all_checks())
    if (!check.is_of_host || topology.intra_rank == 0)
      (check.looks_first ? first : others)[check.name] = [look = check.look, place_data] {
        return look({place_data->first, place_data->second});
      };
  json seen = bounded(longest, first);
  seen.update(bounded(longest, others));
  return seen;
}

void judge(const Check& check, const std::vector<json>& all, const Settings& settings,
           Report& report) {
  std::vector<Seen> seen;
  for (std::size_t number = 0; number < all.size(); ++number) {
    if (!all[number].contains(check.name)) continue;
    const int rank = static_cast<int>(number);
    const json& facts = all[number].at(check.name);
    if (const std::string why = failure_of(facts); !why.empty())
      report.fail(
          check.name, check.is_of_host ? report.host_of(rank) : std::set{rank},
          fmt::format("cannot be looked at: {}", why),
          "look for a disk, driver or name server there that does not answer (dmesg, mount)");
    else
      seen.push_back({rank, facts});
  }
  if (!seen.empty()) check.judge(seen, settings, report);
}

std::string hosts_text(const Topology& topology) {
  return fmt::format(
      "tasuki-doctor: {} on {}\n", counted(topology.size, "rank"),
      topology.inter_size == 1 ? topology.host_of.front() : counted(topology.inter_size, "host"));
}

ordered_json json_of(const Report& report, const std::vector<PairLink>& links,
                     const std::vector<ClockOffset>& clocks) {
  const auto& host_of = report.topology().host_of;
  ordered_json result = {{"tasuki", version()},
                         {"hosts", host_of},
                         {"errors", report.count(Mark::error)},
                         {"warnings", report.count(Mark::warning)},
                         {"checks", report.findings()},
                         {"links", ordered_json::array()},
                         {"clocks", ordered_json::array()}};
  for (const PairLink& link : links)
    result["links"].push_back({{"ranks", {link.first, link.second}},
                               {"latency", link.latency},
                               {"bytes_per_second", link.bytes_per_second}});
  for (const ClockOffset& clock : clocks)
    result["clocks"].push_back(
        {{"rank", clock.rank}, {"offset", clock.offset}, {"uncertainty", clock.uncertainty}});
  return result;
}

// Lines appear when they are known, so that those before a hanging network are seen.
class Doctor {
 public:
  Doctor(Settings settings, Communicator& communicator)
      : settings_(std::move(settings)),
        communicator_(communicator),
        report_(communicator.topology()) {}

  // On rank 0, the program's exit code.
  int run() {
    if (!settings_.wants_json) say(hosts_text(communicator_.topology()));
    const auto all = gather_object(communicator_, look(settings_, communicator_.topology()));
    if (communicator_.rank() == 0)
      for (const Check& check : all_checks()) {
        judge(check, all, settings_, report_);
        say_news();
      }
    const auto clocks = measure_clocks(communicator_);
    if (communicator_.rank() == 0) judge_clocks(clocks, report_);
    std::vector<PairLink> links;
    if (!settings_.is_quick) {
      links = measure_links(communicator_);
      if (communicator_.rank() == 0) judge_links(links, report_);
    }
    say_news();
    if (settings_.out) check_output(communicator_, *settings_.out, settings_.is_quick, report_);
    say_news();
    if (settings_.wants_json)
      say(json_text(json_of(report_, links, clocks), 2) + "\n");
    else
      say(report_.summary() + "\n");
    return bcast_object(communicator_,
                        report_.count(Mark::error) == 0 ? 0 : static_cast<int>(ErrorKind::config));
  }

 private:
  void say(const std::string& text) const { program::print_on_root(communicator_, text); }
  void say_news() {
    if (!settings_.wants_json) program::report_on_root(communicator_, report_.next_lines());
  }

  Settings settings_;
  Communicator& communicator_;
  Report report_;
};

int examine(int argc, char** argv) {
  const auto communicator = create_communicator("naive");
  Settings settings;
  program::StallSettings stalls = short_stalls;
  program::Options options = make_options(settings, stalls);
  const auto request =
      options.parse(flags_of_root(*communicator, argc, argv), program::read_on_root(*communicator));
  if (request != program::Options::Request::run) {
    program::print_on_root(*communicator, options.text(request));
    return 0;
  }
  program::apply(stalls);
  return Doctor(settings, *communicator).run();
}

}  // namespace
}  // namespace tasuki::doctor

int main(int argc, char** argv) {
  return tasuki::run_tool([&] {
    tasuki::doctor::make_room_for_mpi();
    tasuki::program::apply(tasuki::doctor::short_stalls);
    return tasuki::run_job(argc, argv, tasuki::doctor::examine);
  });
}
