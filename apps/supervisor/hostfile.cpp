#include "supervisor/hostfile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "tasuki/core/error.hpp"
#include "tasuki/core/host_name.hpp"

namespace tasuki::supervisor {
namespace {

std::string without_domain(const std::string& name) {
  const bool is_address = name.find_first_not_of("0123456789.:") == std::string::npos;
  return is_address ? name : name.substr(0, name.find('.'));
}

// What hosts take in proportion to each other.
int weight_of(const std::vector<Host>& hosts, bool by_slots) {
  return by_slots ? *slots_of(hosts) : static_cast<int>(hosts.size());
}

}  // namespace

bool Host::is_this_machine() const {
  return name == "localhost" || name.starts_with("127.") || name == "::1" ||
         without_domain(name) == without_domain(host_name());
}

std::vector<Host> parse_hostfile(std::string_view text, std::string_view file) {
  static const std::regex slots("\\sslots\\s*=\\s*(\\S*)"), number("\\d{1,6}");
  std::vector<Host> hosts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    Host host;
    if (!(words >> host.address)) continue;
    host.name = host.address.substr(host.address.find('@') + 1);
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
