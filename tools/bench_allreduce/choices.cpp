#include "tools/bench_allreduce/choices.hpp"

#include <algorithm>
#include <cstddef>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/text_parts.hpp"
#include "program/flags/flag_groups.hpp"

namespace tasuki::program {
namespace {

std::size_t place_in(const std::vector<std::string>& all, const char* flag,
                     const std::string& name) {
  const auto place = std::ranges::find(all, name);
  if (place == all.end())
    fail_everywhere(ErrorKind::usage, "{} {}: expected `all` or some of {}", flag, name,
                    join(all, ", "));
  return static_cast<std::size_t>(place - all.begin());
}

}  // namespace

std::vector<std::string> names_in(const std::string& text, const std::vector<std::string>& all) {
  return text == "all" ? all : text_parts(text, ',');
}

Algorithms algorithms_in(const std::string& text) {
  std::vector<std::string> all = {"auto"};
  Algorithms choices = {std::nullopt};
  for (const AllreduceAlgorithm each : allreduce_algorithms()) {
    all.emplace_back(name_of(each));
    choices.emplace_back(each);
  }
  Algorithms found;
  for (const std::string& name : names_in(text, all))
    found.push_back(choices[place_in(all, "--allreduce", name)]);
  return found;
}

std::vector<DType> wires_in(const std::string& text) {
  std::vector<std::string> all;
  for (const Choice<DType>& choice : wire_dtypes()) all.emplace_back(choice.name);
  std::vector<DType> found;
  for (const std::string& name : names_in(text, all))
    found.push_back(wire_dtypes()[place_in(all, "--wire-dtype", name)].value);
  return found;
}

}  // namespace tasuki::program
