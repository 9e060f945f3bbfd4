#include "program/report/banner.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"

namespace tasuki::program {
namespace {

constexpr std::size_t most_ranks_shown = 64;
const std::string rule(42, '=');

std::string map_of_ranks(const std::vector<RankPlace>& places) {
  std::size_t host = 4, device = 6;
  for (const RankPlace& place : places) {
    host = std::max(host, place.host.size());
    device = std::max(device, place.device.size());
  }
  std::string text = fmt::format("{:>4}  {:<{}}  {:<{}}  {:>7}  {}\n", "rank", "host", host,
                                 "device", device, "threads", "cores");
  for (std::size_t rank = 0; rank < std::min(places.size(), most_ranks_shown); ++rank) {
    const RankPlace& place = places[rank];
    text += fmt::format("{:>4}  {:<{}}  {:<{}}  {:>7}  {}\n", rank, place.host, host, place.device,
                        device, place.threads, place.cpus);
  }
  if (places.size() > most_ranks_shown)
    text += fmt::format("      ... and {} more ranks\n", places.size() - most_ranks_shown);
  return text;
}

// The origin of the numbers of threads; if there are several, each with the first rank that it
// applies to.
std::string threads_remark(const std::vector<RankPlace>& places) {
  std::vector<std::pair<std::string, std::size_t>> sources;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::string& origin = places[rank].threads_origin;
    if (std::ranges::find(sources, origin, &std::pair<std::string, std::size_t>::first) ==
        sources.end())
      sources.emplace_back(origin, rank);
  }
  std::string text;
  for (const auto& [origin, rank] : sources) {
    text += text.empty() ? "threads: " : "; ";
    text += origin.empty() ? "the node's cores shared among its ranks" : "as " + origin + " says";
    if (sources.size() > 1) text += fmt::format(" (rank {})", rank);
  }
  return text.empty() ? "" : text + '\n';
}

std::string binding_remark(const std::vector<RankPlace>& places) {
  const auto worst = std::max_element(
      places.begin(), places.end(),
      [](const RankPlace& a, const RankPlace& b) { return a.lost_to_binding < b.lost_to_binding; });
  if (worst == places.end() || worst->lost_to_binding == 0) return "";
  return fmt::format(
      "mpirun binds rank {} to {} of the {} cores it could use; `mpirun --bind-to none` gives it "
      "all\n",
      worst - places.begin(), worst->threads, worst->threads + worst->lost_to_binding);
}

}  // namespace

std::string banner_text(const BannerLines& lines, const std::vector<RankPlace>& places) {
  std::string text = rule + '\n';
  for (const auto& [name, value] : lines) text += fmt::format("{}: {}\n", name, value);
  text += map_of_ranks(places);
  text += threads_remark(places);
  text += binding_remark(places);
  return text + rule + '\n';
}

void print_banner(const RankSetup& setup, const BannerLines& lines) {
  Communicator& communicator = *setup.communicator;
  const nlohmann::json own = {setup.device_text, cpu_list(setup.processors.cpus),
                              setup.threads.threads, setup.threads.lost_to_binding,
                              setup.threads.origin};
  const auto gathered = gather_object(communicator, own);
  if (communicator.rank() != 0) return;

  std::vector<RankPlace> places;
  places.reserve(gathered.size());
  for (const nlohmann::json& values : gathered)
    places.push_back({communicator.topology().host_of.at(places.size()), values.at(0), values.at(1),
                      values.at(2), values.at(3), values.at(4)});
  report_on_root(communicator, banner_text(lines, places));
}

}  // namespace tasuki::program
