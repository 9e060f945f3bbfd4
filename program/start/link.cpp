#include "tasuki/program/start/link.hpp"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "tasuki/communicator/algorithms/link_probe.hpp"
#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/core/log.hpp"

namespace tasuki::program {
namespace {

using nlohmann::json;

// The link that the file has for these hosts; nothing if it is missing, damaged or of other hosts.
std::optional<Link> read_link(const std::filesystem::path& file, const Topology& topology) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  try {
    const json found = json::parse(read_file(file));
    const Link link{.latency = found.at("latency").get<double>(),
                    .bytes_per_second = found.at("bytes_per_second").get<double>()};
    const bool is_usable = link.latency >= 0 && link.bytes_per_second > 0;
    if (is_usable && found.at("hosts") == topology.host_of) return link;
  } catch (const std::exception& error) {
    log_verbose("{} is not used: {}", file.string(), error.what());
  }
  return {};
}

}  // namespace

void add_probe_flag(Options& options, LinkProbe& probe) {
  options.add(
      "probe", probe,
      std::vector<Choice<LinkProbe>>{{"on", LinkProbe::on}, {"off", LinkProbe::off}}, "on|off",
      "on: measure latency and rate between machines at the start (at most 0.3 s), by which "
      "`--allreduce auto` chooses, and keep them in the output folder as link.json for "
      "later runs there; off: assume 50 us and 1 Gbit/s");
}

std::optional<Link> find_link(Communicator& communicator, const std::filesystem::path& folder) {
  if (communicator.inter_size() == 1) return {};
  std::array<double, 2> numbers{};  // no rate: there is no file
  const Bytes told = run_on_root(communicator, 0, [&] {
    if (const auto link = read_link(folder / link_file, communicator.topology()))
      numbers = {link->latency, link->bytes_per_second};
    const auto bytes = std::as_bytes(std::span(numbers));
    return Bytes(bytes.begin(), bytes.end());
  });
  std::memcpy(numbers.data(), told.data(), sizeof numbers);
  const bool is_known = numbers[1] > 0;
  const Link link = is_known ? Link{.latency = numbers[0], .bytes_per_second = numbers[1]}
                             : probe_link(communicator).value();
  log_verbose("the link between machines: {:.0f} us, {:.1f} MB/s ({})", link.latency * 1e6,
              link.bytes_per_second / 1e6,
              is_known ? (folder / link_file).string() : "measured now");
  return link;
}

void keep_link(Communicator& communicator, const Link& link, OutputFolder& output) {
  run_on_root(communicator, 0, [&] {
    const json contents = {{"hosts", communicator.topology().host_of},
                           {"latency", link.latency},
                           {"bytes_per_second", link.bytes_per_second}};
    output.write(link_file, contents.dump(2) + '\n');
    return Bytes{};
  });
}

}  // namespace tasuki::program
