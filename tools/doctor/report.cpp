#include "tools/doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/printable.hpp"

namespace tasuki::doctor {
namespace {

bool differ_in_ranks_alone(const Finding& a, const Finding& b) {
  return a.check == b.check && a.mark == b.mark && a.found == b.found && a.remedy == b.remedy;
}

}  // namespace

const char* name_of(Mark mark) {
  constexpr std::array names = {"ok", "warning", "error"};
  return names[static_cast<std::size_t>(mark)];
}

void Report::add(Finding finding) {
  for (std::size_t i = printed_; i < findings_.size(); ++i)
    if (differ_in_ranks_alone(findings_[i], finding)) {
      findings_[i].ranks.merge(finding.ranks);
      return;
    }
  findings_.push_back(std::move(finding));
}

void Report::ok(const std::string& check, std::set<int> ranks, std::string found) {
  add({check, Mark::ok, std::move(ranks), std::move(found)});
}

void Report::warn(const std::string& check, std::set<int> ranks, std::string found,
                  std::string remedy) {
  add({check, Mark::warning, std::move(ranks), std::move(found), std::move(remedy)});
}

void Report::fail(const std::string& check, std::set<int> ranks, std::string found,
                  std::string remedy) {
  add({check, Mark::error, std::move(ranks), std::move(found), std::move(remedy)});
}

int Report::count(Mark mark) const {
  return static_cast<int>(std::ranges::count(findings_, mark, &Finding::mark));
}

std::set<int> Report::all() const {
  std::set<int> ranks;
  for (int rank = 0; rank < topology_.size; ++rank) ranks.insert(rank);
  return ranks;
}

std::set<int> Report::host_of(int rank) const {
  const std::vector<int> ranks =
      topology_.ranks_of_node(topology_.node_of[static_cast<std::size_t>(rank)]);
  return {ranks.begin(), ranks.end()};
}

std::string Report::where(const std::set<int>& ranks) const {
  std::vector<std::string> places;
  std::set<int> named;
  for (const int rank : ranks) {
    if (named.contains(rank)) continue;
    const std::string& host = topology_.host_of[static_cast<std::size_t>(rank)];
    const std::set<int> neighbours = host_of(rank);
    if (std::ranges::includes(ranks, neighbours)) {
      named.insert(neighbours.begin(), neighbours.end());
      places.push_back(host);
    } else {
      places.push_back(fmt::format("rank {} on {}", rank, host));
    }
  }
  constexpr std::size_t most = 8;
  if (places.size() > most) {
    const std::size_t more = places.size() - most;
    places.resize(most);
    places.push_back(fmt::format("{} more", more));
  }
  return join(places, ", ");
}

std::string Report::line(const Finding& finding) const {
  const bool is_everywhere = static_cast<int>(finding.ranks.size()) == topology_.size;
  const bool names_place = finding.mark != Mark::ok || !is_everywhere;
  const std::string place = names_place ? fmt::format(" ({})", where(finding.ranks)) : "";
  const std::string remedy = finding.remedy.empty() ? "" : "; " + finding.remedy;
  return fmt::format("{:<7}  {}\n", name_of(finding.mark),
                     message_line(finding.check + place + ": " + finding.found + remedy));
}

std::string Report::next_lines() {
  std::string text;
  for (; printed_ < findings_.size(); ++printed_) text += line(findings_[printed_]);
  return text;
}

std::string Report::summary() const {
  const int errors = count(Mark::error), warnings = count(Mark::warning);
  return fmt::format("{}, {}", errors == 0 ? "no errors" : counted(errors, "error"),
                     warnings == 0 ? "no warnings" : counted(warnings, "warning"));
}

nlohmann::ordered_json Report::findings() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings_)
    list.push_back({{"check", finding.check},
                    {"mark", name_of(finding.mark)},
                    {"where", where(finding.ranks)},
                    {"ranks", finding.ranks},
                    {"found", finding.found},
                    {"remedy", finding.remedy}});
  return list;
}

std::string size_text(double bytes) {
  constexpr std::array units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, units[unit]);
}

std::string time_text(double seconds) {
  const double size = std::abs(seconds);
  if (size < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (size < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

std::string counted(std::int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace tasuki::doctor
