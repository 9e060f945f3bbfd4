#include "job/heartbeat_paths.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

namespace tasuki {
namespace {

bool is_in(std::uint32_t address, std::uint32_t network, int bits) {
  return (ntohl(address) ^ network) >> (32 - bits) == 0;
}

bool is_private(const HostAddress& one) {
  return is_in(one.address, 0x0a000000, 8) || is_in(one.address, 0xac100000, 12) ||
         is_in(one.address, 0xc0a80000, 16);
}

bool has(const HostAddresses& host, const HostAddress& one) {
  return std::ranges::find(host, one.address, &HostAddress::address) != host.end();
}

// A loopback address of a machine that both sets of addresses belong to.
std::optional<HeartbeatPath> within_machine(const HostAddresses& from, const HostAddresses& to) {
  const auto in_both = [&](const HostAddress& one) { return has(from, one) && has(to, one); };
  if (!std::ranges::all_of(from, in_both) || !std::ranges::all_of(to, in_both)) return std::nullopt;
  // The lowest, so that both directions use the same one.
  std::optional<std::uint32_t> lowest;
  for (const HostAddress& each : from)
    if (is_loopback(each) && (!lowest || ntohl(each.address) < ntohl(*lowest)))
      lowest = each.address;
  if (!lowest) return std::nullopt;
  return HeartbeatPath{*lowest, *lowest};
}

}  // namespace

bool is_loopback(const HostAddress& one) {
  return is_in(one.address, 0x7f000000, 8);
}

HostAddresses own_addresses() {
  HostAddresses found{};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  const auto address_in = [](const sockaddr* place) {
    return reinterpret_cast<const sockaddr_in*>(place)->sin_addr.s_addr;
  };
  std::size_t count = 0;
  for (const bool wants_loopback : {false, true})
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
          each->ifa_netmask == nullptr || (each->ifa_flags & IFF_UP) == 0)
        continue;
      const HostAddress one{address_in(each->ifa_addr), address_in(each->ifa_netmask)};
      if (is_loopback(one) == wants_loopback && count < found.size()) found[count++] = one;
    }
  return found;
}

std::vector<HeartbeatPath> choose_paths(const HostAddresses& from, const HostAddresses& to) {
  if (const auto inside = within_machine(from, to)) return {*inside};
  const auto leads = [](const HostAddress& one, const HostAddresses& other) {
    return one.address != 0 && !is_loopback(one) && !has(other, one);
  };
  std::vector<HeartbeatPath> neighbours, others;
  // The rank of a pair: smaller is better. The same in both directions.
  using Rank = std::tuple<bool, std::size_t, std::uint32_t>;
  Rank best_rank;
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t j = 0; j < to.size(); ++j) {
      if (!leads(from[i], to) || !leads(to[j], from)) continue;
      const HeartbeatPath path{from[i].address, to[j].address};
      if (const std::uint32_t mask = from[i].mask;
          mask == to[j].mask && (path.from & mask) == (path.to & mask))
        neighbours.push_back(path);
      const Rank rank{!(is_private(from[i]) && is_private(to[j])), i + j,
                      std::min(path.from, path.to)};
      if (!others.empty() && rank >= best_rank) continue;
      others = {path};
      best_rank = rank;
    }
  return neighbours.empty() ? others : neighbours;
}

}  // namespace tasuki
