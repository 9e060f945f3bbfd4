// Draws learning curves from the logs of runs.
//
//   build/apps/tasuki-plot result result-2 -o curves.svg

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/terminal.hpp"
#include "core/text_parts.hpp"
#include "program/flags/options.hpp"
#include "run_tool.hpp"
#include "tools/plot/curves.hpp"
#include "tools/plot/image.hpp"
#include "tools/plot/text.hpp"
#include "tools/take_words.hpp"

namespace tasuki::plot {
namespace {

using program::Option;
using program::Options;

struct Settings {
  std::vector<std::string> keys;  // empty: usual_keys()
  std::string x = "iteration";
  std::optional<std::string> out;
  bool text = false;
};

std::vector<std::string> words_between_commas(const std::string& text) {
  std::vector<std::string> words = text_parts(text, ',');
  if (std::ranges::count(words, "") > 0)
    throw std::invalid_argument("keys of the log, separated by commas");
  return words;
}

Option keys_flag(std::vector<std::string>& keys) {
  Option option;
  option.value_name = "LIST";
  option.help =
      "keys of the log to draw, separated by commas; those that end alike share a panel. auto: "
      "loss "
      "and accuracy in training and validation, as far as they are there";
  option.set = [&keys](const std::string& text) {
    if (text == "auto")
      keys.clear();
    else
      keys = words_between_commas(text);
  };
  option.get = [&keys] {
    std::string text;
    for (const std::string& key : keys) text += (text.empty() ? "" : ",") + key;
    return text.empty() ? "auto" : text;
  };
  return option;
}

void add_flags(Options& options, Settings& settings) {
  options.group("Curves");
  options.add("keys,y", keys_flag(settings.keys)).in_short("keys of the log, separated by commas");
  options
      .add("x-axis,x", settings.x, {"iteration", "epoch", "elapsed_time"}, "KEY",
           "the horizontal axis: iteration, epoch or elapsed_time (seconds)")
      .in_short("iteration, epoch or elapsed_time");
  options.group("Output");
  options
      .add("out,o", settings.out, "none", "FILE",
           "the image to write, .svg or .png, drawn by gnuplot (Debian's gnuplot-nox)")
      .in_short("image to write: .svg or .png");
  options.add("text", settings.text, "draw in the terminal; without --out this is the default");
}

void check_image(const std::string& file) {
  const std::filesystem::path ending = std::filesystem::path(file).extension();
  if (ending != ".svg" && ending != ".png")
    fail(ErrorKind::usage, "--out {}: expected a name that ends in .svg or .png", file);
}

int run(int argc, char** argv) {
  Settings settings;
  Options options("tasuki-plot", "draws learning curves from the logs of runs",
                  "tasuki-plot result result-2 -o curves.svg");
  add_flags(options, settings);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> words = take_words(arguments);
  const Options::Request request = options.parse(arguments);
  if (request != Options::Request::run) {
    fmt::print("{}", options.text(request));
    return 0;
  }
  if (words.empty())
    fail(ErrorKind::usage, "expected the output folders of runs before the flags, found none");
  if (settings.out) check_image(*settings.out);
  const std::vector<std::filesystem::path> runs(words.begin(), words.end());
  const std::vector<Panel> panels = read_panels(runs, settings.keys, settings.x);
  if (settings.out) draw(panels, settings.x, *settings.out);
  if (settings.text || !settings.out)
    fmt::print("{}", text_plot(panels, settings.x, std::min(line_width(stdout), usual_width)));
  return 0;
}

}  // namespace
}  // namespace tasuki::plot

int main(int argc, char** argv) {
  return tasuki::run_tool([&] { return tasuki::plot::run(argc, argv); });
}
