// Network interfaces, and those among them that MPI may use in vain: the bridges of container and
// VM software have the same addresses on many hosts.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/text_parts.hpp"
#include "program/start/processors.hpp"
#include "tools/doctor/check.hpp"

namespace tasuki::doctor {
namespace {

using nlohmann::json;

constexpr const char* interfaces_title = "network";

struct Interface {
  std::string name;
  std::uint32_t address = 0;  // IPv4, in the host's byte order
  int bits = 0;               // of the network's part

  std::string text() const { return fmt::format("{} {}/{}", name, address_text(address), bits); }
  std::uint32_t mask() const { return bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits); }
  std::string network() const { return fmt::format("{}/{}", address_text(address & mask()), bits); }

  static std::string address_text(std::uint32_t number) {
    return fmt::format("{}.{}.{}.{}", number >> 24, number >> 16 & 255, number >> 8 & 255,
                       number & 255);
  }
};

std::vector<Interface> own_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail(ErrorKind::unavailable, "the system does not list interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  const auto number_in = [](const sockaddr* place) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(place)->sin_addr.s_addr);
  };
  std::vector<Interface> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
        each->ifa_netmask != nullptr && (each->ifa_flags & IFF_UP) != 0 &&
        (each->ifa_flags & IFF_LOOPBACK) == 0)
      found.push_back(
          {each->ifa_name, number_in(each->ifa_addr), std::popcount(number_in(each->ifa_netmask))});
  return found;
}

// What this MPI has set for a parameter of its own, wherever it was set; nothing if it has no such
// parameter.
std::optional<std::string> mpi_parameter(const char* name) {
  int provided = 0, index = 0, count = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return std::nullopt;
  std::optional<std::string> value;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    std::string text(static_cast<std::size_t>(std::max(count, 4096)), '\0');
    if (MPI_T_cvar_read(handle, text.data()) == MPI_SUCCESS) value = text.c_str();
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value;
}

json look_at_interfaces(const Place&) {
  json facts = {{"machine", program::system_id()}, {"interfaces", json::array()}};
  for (const Interface& each : own_interfaces())
    facts["interfaces"].push_back({each.name, each.address, each.bits});
  for (const char* list : {"btl_tcp_if_include", "btl_tcp_if_exclude"})
    facts[list] = mpi_parameter(list).value_or("");
  return facts;
}

std::vector<Interface> interfaces_in(const json& facts) {
  std::vector<Interface> found;
  for (const json& each : facts.at("interfaces"))
    found.push_back({each.at(0), each.at(1), each.at(2)});
  return found;
}

// Whether a list of Open MPI's, "eth0,192.168.1.0/24", names an interface.
bool is_named(const std::string& list, const Interface& one) {
  for (const std::string& entry : text_parts(list, ',')) {
    if (entry == one.name) return true;
    const auto slash = entry.find('/');
    in_addr network{};
    if (slash == entry.npos || inet_pton(AF_INET, entry.substr(0, slash).c_str(), &network) != 1)
      continue;
    Interface named{"", ntohl(network.s_addr), std::atoi(entry.c_str() + slash + 1)};
    if (named.bits >= 0 && named.bits <= 32 && ((named.address ^ one.address) & named.mask()) == 0)
      return true;
  }
  return false;
}

// As Open MPI does: one list or the other.
bool may_be_used(const json& facts, const Interface& one) {
  const std::string include = facts.at("btl_tcp_if_include");
  return include.empty() ? !is_named(facts.at("btl_tcp_if_exclude"), one) : is_named(include, one);
}

bool is_virtual_bridge(std::string_view name) {
  constexpr std::array<std::string_view, 9> prefixes = {
      "docker", "virbr", "br-", "cni", "flannel", "podman", "lxcbr", "lxdbr", "cali"};
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// A network that all hosts are in by an interface of their own address; empty if there is none.
std::string common_network(const std::vector<Seen>& seen,
                           const std::map<std::uint32_t, std::set<int>>& hosts_of_address) {
  for (const Interface& first : interfaces_in(seen.front().facts)) {
    const bool is_common = std::ranges::all_of(seen, [&](const Seen& each) {
      const auto others = interfaces_in(each.facts);
      return std::ranges::any_of(others, [&](const Interface& one) {
        return one.network() == first.network() && !is_virtual_bridge(one.name) &&
               hosts_of_address.at(one.address).size() == 1;
      });
    });
    if (is_common) return first.network();
  }
  return "";
}

void judge_interfaces(const std::vector<Seen>& seen, const Settings&, Report& report) {
  std::map<std::uint32_t, std::set<int>> hosts_of_address;
  for (const Seen& each : seen)
    for (const Interface& one : interfaces_in(each.facts))
      hosts_of_address[one.address].insert(each.rank);
  const std::string common = common_network(seen, hosts_of_address);
  const std::string network = common.empty() ? "NETWORK" : common;
  for (const Seen& each : seen) {
    const std::set<int> host = report.host_of(each.rank);
    std::vector<std::string> texts;
    for (const Interface& one : interfaces_in(each.facts)) {
      texts.push_back(one.text());
      const bool is_elsewhere = hosts_of_address.at(one.address).size() > 1;
      if (seen.size() == 1 || !may_be_used(each.facts, one) ||
          !(is_elsewhere || is_virtual_bridge(one.name)))
        continue;
      report.warn(
          interfaces_title, host,
          fmt::format("MPI may use {}, {}", one.text(),
                      is_elsewhere ? "an address that several hosts have, so that messages get lost"
                                   : "which leads to containers and virtual machines alone"),
          fmt::format("tasuki-run --mpirun-args \"--mca btl_tcp_if_include {} --mca "
                      "oob_tcp_if_include {}\"",
                      network, network));
    }
    report.ok(interfaces_title, host,
              texts.empty() ? "no interface but the loopback" : join(texts, ", "));
  }
}

}  // namespace

const Check interface_check = {interfaces_title, true, look_at_interfaces, judge_interfaces};

}  // namespace tasuki::doctor
