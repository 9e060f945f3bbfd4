#include "optimizer/parameter_group.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace tasuki {

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return path.empty();
  if (pattern.front() != '*')
    return !path.empty() && path.front() == pattern.front() &&
           matches(pattern.substr(1), path.substr(1));
  const bool is_any = pattern.starts_with("**");
  const std::string_view rest = pattern.substr(is_any ? 2 : 1);
  for (std::size_t taken = 0;; ++taken) {
    if (matches(rest, path.substr(taken))) return true;
    if (taken == path.size() || (!is_any && path[taken] == '/')) return false;
  }
}

void FrozenPaths::add(Rule rule) {
  // What later patterns hide.
  std::erase_if(rules_, [&](const Rule& each) {
    return each.pattern == rule.pattern || rule.pattern == "**";
  });
  rules_.push_back(std::move(rule));
  if (std::ranges::none_of(rules_, &Rule::is_frozen)) rules_.clear();
}

bool FrozenPaths::has(std::string_view path) const {
  const auto found = std::find_if(rules_.rbegin(), rules_.rend(),
                                  [&](const Rule& rule) { return matches(rule.pattern, path); });
  return found != rules_.rend() && found->is_frozen;
}

std::vector<std::string> FrozenPaths::patterns() const {
  std::vector<std::string> patterns;
  for (const Rule& rule : rules_) patterns.push_back(rule.pattern);
  return patterns;
}

std::string FrozenPaths::text() const {
  std::string text;
  for (const Rule& rule : rules_)
    text += fmt::format("{} {}\n", rule.is_frozen ? '-' : '+', rule.pattern);
  return text;
}

FrozenPaths FrozenPaths::parse(std::string_view text) {
  FrozenPaths paths;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.size() < 2 || (line[0] != '-' && line[0] != '+') || line[1] != ' ')
      fail_everywhere(ErrorKind::data, "frozen parameters: expected \"- path\", found \"{}\"",
                      line);
    paths.rules_.push_back({std::string(line.substr(2)), line[0] == '-'});
  }
  return paths;
}

bool ParameterGroup::has(std::string_view path, const Shape& shape) const {
  return (!is_1d_only || shape.rank() <= 1) && matches(pattern, path);
}

std::string ParameterGroup::text() const {
  std::string text = pattern;
  if (is_1d_only) text += " (1d)";
  if (rate_factor) text += fmt::format(", rate x {}", *rate_factor);
  for (const auto& [name, value] : values) text += fmt::format(", {} {}", name, value);
  if (weight_decay) text += fmt::format(", weight decay {}", *weight_decay);
  return text;
}

}  // namespace tasuki
