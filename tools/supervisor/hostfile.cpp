#include "tools/supervisor/hostfile.hpp"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <regex>
#include <sstream>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"

namespace tasuki::supervisor {
namespace {

std::string without_domain(const std::string& name) {
  const bool is_address = name.find_first_not_of("0123456789.:") == std::string::npos;
  return is_address ? name : name.substr(0, name.find('.'));
}

bool has_domain(const std::string& name) {
  return without_domain(name) != name;
}

bool are_equal(const sockaddr* one, const sockaddr* other) {
  if (one->sa_family != other->sa_family) return false;
  if (one->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(one)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr;
  return one->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

// Whether one of the name's addresses is this machine's; nothing if no address is known.
std::optional<bool> leads_here(const std::string& name) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;  // each address once
  if (getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> own(list, freeifaddrs);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next)
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
      if (each->ifa_addr != nullptr && are_equal(address->ai_addr, each->ifa_addr)) return true;
  return false;
}

void check_name(const std::string& name, std::string_view file) {
  if (name.find(':') != std::string::npos)
    fail(
        ErrorKind::config,
        "{}: '{}' has a colon, and mpirun takes neither numbers nor IPv6 addresses there; expected "
        "a name or an IPv4 address, then slots=N: `node1 slots=2`",
        file, name);
  const bool is_name = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("-._+^", c) != nullptr;
  });
  if (!is_name)
    fail(ErrorKind::config, "{}: expected the name of a host, found '{}'", file, printable(name));
}

// The hosts' relative capacities.
int weight_of(const std::vector<Host>& hosts, bool by_slots) {
  return by_slots ? *slots_of(hosts) : static_cast<int>(hosts.size());
}

}  // namespace

bool Host::is_this_machine() const {
  if (name == "localhost" || name.starts_with("127.")) return true;
  const std::string own = host_name();
  if (without_domain(name) != without_domain(own)) return false;
  if (has_domain(name) && has_domain(own)) return name == own;
  return !has_domain(name) || leads_here(name).value_or(true);
}

std::vector<Host> parse_hostfile(std::string_view text, std::string_view file) {
  static const std::regex slots("\\sslots\\s*=\\s*(\\S*)"), number("\\d{1,6}");
  std::vector<Host> hosts;
  std::istringstream lines{std::string(without_byte_order_mark(text))};
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    line.erase(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    Host host;
    if (!(words >> host.address)) continue;
    host.name = host.address.substr(host.address.find('@') + 1);
    check_name(host.name, file);
    if (std::smatch found; std::regex_search(line, found, slots)) {
      const std::string count = found[1];
      if (!std::regex_match(count, number))
        fail(ErrorKind::config, "{}: {}: expected slots=N, an integer from 0 to 999999, found '{}'",
             file, host.name, count);
      host.slots = std::stoi(count);
    }
    host.lines = line + '\n';
    const auto known = std::ranges::find(hosts, host.name, &Host::name);
    if (known == hosts.end()) {
      hosts.push_back(std::move(host));
      continue;
    }
    known->lines += host.lines;
    // A line without slots is one slot if the host has others.
    known->slots = known->slots.value_or(1) + host.slots.value_or(1);
  }
  if (hosts.empty())
    fail(ErrorKind::config, "{}: expected a host on each line (`node1 slots=4`), found none", file);
  return hosts;
}

bool is_plain_hostfile(std::string_view text) {
  return text == without_byte_order_mark(text) && text.find('\r') == std::string_view::npos;
}

bool need_domains(const std::vector<Host>& hosts) {
  return std::ranges::any_of(hosts, [&](const Host& one) {
    return std::ranges::any_of(hosts, [&](const Host& other) {
      return one.name != other.name && without_domain(one.name) == without_domain(other.name);
    });
  });
}

std::string hostfile_text(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += host.lines;
  return text;
}

std::string names_of(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += (text.empty() ? "" : ", ") + host.name;
  return text;
}

std::optional<int> slots_of(const std::vector<Host>& hosts) {
  int sum = 0;
  for (const Host& host : hosts) {
    if (!host.slots) return std::nullopt;
    sum += *host.slots;
  }
  return sum;
}

int ranks_on(const std::vector<Host>& left, const std::vector<Host>& all, int np,
             std::optional<std::int64_t> shards, int least) {
  const bool by_slots = slots_of(all) && *slots_of(all) > 0;
  const int whole = weight_of(all, by_slots), part = weight_of(left, by_slots);
  const bool is_dense = !by_slots || np > whole;
  int most = is_dense ? static_cast<int>(std::int64_t{np} * part / whole) : std::min(np, part);
  while (shards && most > 0 && *shards % most != 0) --most;
  return most >= least ? most : 0;
}

}  // namespace tasuki::supervisor
