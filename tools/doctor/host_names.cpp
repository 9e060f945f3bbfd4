// Names of hosts: each should be one machine's, and mean the same address on all hosts.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/printable.hpp"
#include "program/start/processors.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

constexpr const char* names_title = "host names";
constexpr int most_names = 32;  // resolving one may take a second

// Its IPv4 addresses, or why there are none.
json resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(name.c_str(), nullptr, &hints, &list); code != 0)
    return {{"problem", gai_strerror(code)}};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::set<std::string> addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    char text[INET_ADDRSTRLEN] = {};
    const auto* const place = reinterpret_cast<const sockaddr_in*>(each->ai_addr);
    if (inet_ntop(AF_INET, &place->sin_addr, text, sizeof text) != nullptr) addresses.insert(text);
  }
  return {{"addresses", addresses}};
}

json look_at_names(const Place& place) {
  const Topology& topology = place.topology;
  json names = json::object();
  for (int node = 0; node < std::min(topology.inter_size, most_names); ++node) {
    const int first = topology.ranks_of_node(node).front();
    const std::string& host = topology.host_of[static_cast<std::size_t>(first)];
    names[host] = resolve(host);
  }
  return {{"machine", program::system_id()}, {"names", names}};
}

std::string text_of(const json& addresses) {
  return join(addresses.get<std::vector<std::string>>(), " and ");
}

// What `seen` finds under another host's name.
void judge_name(const Seen& seen, const std::string& name, const json& found, const json& usual,
                const std::string& usual_host, Report& report) {
  const std::set<int> host = report.host_of(seen.rank);
  const auto addresses = found.at("addresses").get<std::vector<std::string>>();
  if (std::ranges::any_of(addresses, [](const auto& each) { return each.starts_with("127."); }))
    report.warn(names_title, host,
                fmt::format("{}, another host, is {} there", name, text_of(addresses)),
                "correct the line in /etc/hosts of that host");
  else if (usual.at("addresses") != found.at("addresses"))
    report.warn(names_title, host,
                fmt::format("{} is {} there, and {} on {}", name, text_of(addresses),
                            text_of(usual.at("addresses")), usual_host),
                "give the name the same address on all hosts (/etc/hosts, name server)");
}

struct Unknown {
  std::set<std::string> names;
  std::set<int> on;
};

void judge_names(const std::vector<Seen>& seen, const Settings&, Report& report) {
  const Topology& topology = report.topology();
  const auto host_of = [&](const Seen& each) {
    return topology.host_of[static_cast<std::size_t>(each.rank)];
  };
  std::map<std::string, const Seen*> owner;
  for (const Seen& each : seen) {
    const auto [known, is_new] = owner.try_emplace(host_of(each), &each);
    if (is_new || known->second->facts.at("machine") == each.facts.at("machine")) continue;
    report.fail(names_title, {each.rank, known->second->rank},
                fmt::format("two machines have the name {}", host_of(each)),
                "give each its own: hostnamectl set-hostname NAME");
  }
  const int before = report.count(Mark::warning) + report.count(Mark::error);
  std::map<std::string, Unknown> unknown;  // by the problem
  for (const auto& [name, of_owner] : owner) {
    // The first host other than the name's own that knows it: others are compared with it.
    const Seen* usual = nullptr;
    for (const Seen& each : seen) {
      const json& names = each.facts.at("names");
      if (host_of(each) == name || !names.contains(name)) continue;
      if (names.at(name).contains("problem")) {
        Unknown& more = unknown[names.at(name).at("problem").get<std::string>()];
        more.names.insert(name);
        more.on.merge(report.host_of(each.rank));
        continue;
      }
      if (usual == nullptr) usual = &each;
      judge_name(each, name, names.at(name), usual->facts.at("names").at(name), host_of(*usual),
                 report);
    }
  }
  for (const auto& [problem, what] : unknown)
    report.warn(names_title, what.on,
                fmt::format("other hosts are not known there by their names, {}: {}",
                            fmt::join(what.names, ", "), problem),
                "add them to /etc/hosts or to the name server, or put addresses into the hostfile");
  if (report.count(Mark::warning) + report.count(Mark::error) > before) return;
  std::vector<std::string> names;
  for (const auto& [name, found] : seen.front().facts.at("names").items()) names.push_back(name);
  const bool are_all = topology.inter_size <= most_names;
  report.ok(names_title, report.all(),
            names.size() == 1 ? names.front()
            : are_all         ? join(names, ", ") + " know each other's names"
                      : fmt::format("{} of {} hosts were compared: all know {}", names.size(),
                                    topology.inter_size, join(names, ", ")));
}

}  // namespace

const Check host_name_check = {names_title, true, look_at_names, judge_names};

}  // namespace tasuki::doctor
