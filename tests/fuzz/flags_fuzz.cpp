// Command lines, with a config file: what --print-config writes sets the same values again.
#include "fuzz.hpp"
#include "program/flags/options.hpp"

using namespace tasuki;
using namespace tasuki::program;

namespace {

enum class Mode { quick, exact };

// Flags of all kinds.
struct Flags {
  Flags() {
    options.add("count,c", count, {1, 1000}, "N", "an integer");
    options.add("rate", rate, {-1e3, 1e300}, "X", "a number");
    options.add("folder,o", folder, "DIR", "a text");
    options.add("shape", shape, std::vector<std::string>{"square", "circle"}, "NAME", "a choice");
    options.add("mode", mode, {{"quick", Mode::quick}, {"exact", Mode::exact}}, "NAME", "an enum");
    options.add("quiet,q", quiet, "a switch");
    options.add("steps", steps, "none", {0, 1e9}, "X", "numbers");
    options.add("limit", limit, "auto", {0, 99}, "N", "an integer or none");
    options.add("scale", scale, "auto", {0, 1}, "X", "a number or none");
    options.add("name", name, "none", "TEXT", "a text or none");
    options.alias("count", {"number-of", "n"}, {{"-1", "1000"}});
  }

  std::int64_t count = 1;
  double rate = 0.1;
  std::string folder = "result", shape = "square";
  Mode mode = Mode::quick;
  bool quiet = false;
  std::vector<double> steps;
  std::optional<std::int64_t> limit;
  std::optional<double> scale;
  std::optional<std::string> name;
  Options options{"program", "does something", "program --count 2"};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::string file(fuzz::as_text(input.part()));
  std::vector<std::string> arguments;
  for (std::string_view rest = fuzz::as_text(input.rest()); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    arguments.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }

  Flags flags;
  Options::Request request{};
  if (!fuzz::accepts(
          [&] { request = flags.options.parse(arguments, [&](const auto&) { return file; }); }))
    return 0;
  fuzz::require(request == Options::Request::run || !flags.options.text(request).empty(),
                "what was asked for has no text");
  if (request == Options::Request::help) return 0;  // wrong settings are left out

  const std::string written = flags.options.text(Options::Request::print_config);
  Flags again;
  again.options.parse({"--config", "written.ini"}, [&](const auto&) { return written; });
  const auto before = flags.options.values(), after = again.options.values();
  for (std::size_t i = 0; i < before.size(); ++i)
    fuzz::require(before[i] == after[i],
                  fmt::format("--{}: '{}' is '{}' when it was written and read", before[i].first,
                              before[i].second, after[i].second));
  return 0;
}
