#include "program/start/remembered_links.hpp"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "communicator/run_on_root.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "core/own_file.hpp"

namespace tasuki::program {
namespace {

using nlohmann::json;

json as_json(const Link& link) {
  return {{"latency", link.latency}, {"bytes_per_second", link.bytes_per_second}};
}

Link link_from(const json& found) {
  const Link link{.latency = found.at("latency").get<double>(),
                  .bytes_per_second = found.at("bytes_per_second").get<double>()};
  if (!(link.latency >= 0 && link.bytes_per_second > 0))
    fail(ErrorKind::data, "a link of {}", json_text(found));
  return link;
}

// The links that the file has for these hosts; nothing if it is missing, damaged or of other hosts.
std::optional<Links> read_links(const std::filesystem::path& file, const Topology& topology) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  try {
    const json found = parse_json(read_own_file(file), file.string());
    if (found.at("hosts") != topology.host_of) return {};
    Links links;
    if (topology.inter_size > 1) links.between = link_from(found);
    if (topology.size > topology.inter_size) links.inside = link_from(found.at("inside"));
    return links;
  } catch (const std::exception& error) {
    log_verbose("{} is not used: {}", file.string(), error.what());
  }
  return {};
}

}  // namespace

Links find_links(Communicator& communicator, const std::filesystem::path& folder) {
  // Latency and rate of each level; no rate: there is no file, or no such level.
  std::array<Link, 2> known{};
  const Bytes told = run_on_root(communicator, 0, [&] {
    if (const auto links = read_links(folder / link_file, communicator.topology()))
      known = {links->between.value_or(Link{}), links->inside.value_or(Link{})};
    const auto bytes = std::as_bytes(std::span(known));
    return Bytes(bytes.begin(), bytes.end());
  });
  std::memcpy(known.data(), told.data(), sizeof known);
  Links links;
  if (known[0].bytes_per_second > 0) links.between = known[0];
  if (known[1].bytes_per_second > 0) links.inside = known[1];
  const bool is_known = links.between || links.inside;
  if (!is_known) links = probe_links(communicator);
  const std::string source = is_known ? (folder / link_file).string() : "measured now";
  const auto say = [&](const char* place, const std::optional<Link>& link) {
    if (link)
      log_verbose("the link {}: {:.1f} us, {:.1f} MB/s ({})", place, link->latency * 1e6,
                  link->bytes_per_second / 1e6, source);
  };
  say("between machines", links.between);
  say("inside a machine, of messages", links.inside);
  return links;
}

void keep_links(Communicator& communicator, const Links& links, OutputFolder& output) {
  run_on_root(communicator, 0, [&] {
    json contents = {{"hosts", communicator.topology().host_of}};
    if (links.between) contents.update(as_json(*links.between));
    if (links.inside) contents["inside"] = as_json(*links.inside);
    output.write(link_file, json_text(contents, 2) + '\n');
    return Bytes{};
  });
}

}  // namespace tasuki::program
