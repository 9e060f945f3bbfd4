#include "optimizer/weight_units.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "optimizer/parameter_group.hpp"

namespace tasuki {
namespace {

using Entry = ParameterArena::Entry;

// The module that has the parameter, or the one above it that is `depth` names below the model:
// "a/b" of "a/b/W" at 2 and more, "a" at 1.
std::string_view module_of(const Entry& entry, std::size_t depth) {
  const std::string_view path = entry.path;
  std::size_t end = 0;
  for (std::size_t i = 0; i < depth; ++i) {
    const std::size_t next = path.find('/', end == 0 ? 0 : end + 1);
    if (next == path.npos) break;
    end = next;
  }
  return path.substr(0, end);
}

class Divider {
 public:
  Divider(const std::vector<Entry>& entries, std::int64_t target,
          const std::vector<std::string>& patterns)
      : entries_(entries), target_(target), patterns_(patterns) {}

  std::vector<WeightUnit> units() {
    if (!entries_.empty()) divide({0, std::ssize(entries_)}, 0);
    return std::move(units_);
  }

 private:
  const Entry& entry(std::int64_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  std::int64_t end_of(std::int64_t i) const {
    return i + 1 < std::ssize(entries_) ? entry(i + 1).offset : entry(i).offset + entry(i).count;
  }
  std::int64_t bytes_of(Range run) const {
    return (end_of(run.end - 1) - entry(run.begin).offset) *
           static_cast<std::int64_t>(sizeof(float));
  }
  bool is_chosen(std::string_view module) const {
    return std::ranges::any_of(
        patterns_, [&](const std::string& pattern) { return matches(pattern, module); });
  }

  // Whether a pattern matches a module that is more than `depth` names below the model.
  bool is_chosen_below(const Entry& each, std::size_t depth) const {
    for (std::string_view above = module_of(each, depth);; ++depth) {
      const std::string_view module = module_of(each, depth + 1);
      if (module == above) return false;
      if (is_chosen(module)) return true;
      above = module;
    }
  }

  // Runs of entries of the same module at `depth`. None if a module has several, as its own
  // parameters may lie before and behind those of a child.
  std::vector<Range> runs_in(Range all, std::size_t depth) const {
    std::vector<Range> runs;
    std::set<std::string_view> met;
    for (std::int64_t i = all.begin; i < all.end; ++i) {
      const std::string_view module = module_of(entry(i), depth);
      if (!runs.empty() && module == module_of(entry(i - 1), depth))
        ++runs.back().end;
      else if (met.insert(module).second)
        runs.push_back({i, i + 1});
      else
        return {};
    }
    return runs;
  }

  // `run`: the entries of one module at `depth`.
  void divide(Range run, std::size_t depth) {
    const std::string_view module = module_of(entry(run.begin), depth);
    bool is_one = is_chosen(module) || bytes_of(run) <= target_;
    if (is_one && !is_chosen(module))
      for (std::int64_t i = run.begin; i < run.end; ++i)
        is_one = is_one && !is_chosen_below(entry(i), depth);
    const std::vector<Range> parts = runs_in(run, depth + 1);
    if (is_one || parts.empty()) return add(run, module);
    const std::size_t first = units_.size();
    for (const Range& part : parts) {
      const std::size_t before = units_.size();
      if (module_of(entry(part.begin), depth + 1) == module)
        add(part, module);  // its own parameters
      else
        divide(part, depth + 1);
      if (units_.size() == before + 1 && before > first) join_last(module);
    }
  }

  void add(Range run, std::string_view module) {
    units_.push_back({std::string(module), {entry(run.begin).offset, end_of(run.end - 1)}, run});
  }

  void join_last(std::string_view module) {
    WeightUnit &last = units_.back(), &before = units_[units_.size() - 2];
    const Range both{before.entries.begin, last.entries.end};
    if (bytes_of(both) > target_ || is_chosen(last.name) || is_chosen(before.name)) return;
    before = {std::string(module), {before.elements.begin, last.elements.end}, both};
    units_.pop_back();
  }

  const std::vector<Entry>& entries_;
  std::int64_t target_;
  const std::vector<std::string>& patterns_;
  std::vector<WeightUnit> units_;
};

}  // namespace

std::vector<WeightUnit> weight_units(const std::vector<ParameterArena::Entry>& entries,
                                     std::int64_t target,
                                     const std::vector<std::string>& patterns) {
  return Divider(entries, target, patterns).units();
}

std::int64_t default_unit_bytes(const std::vector<ParameterArena::Entry>& entries) {
  constexpr std::int64_t parts = 12, least = std::int64_t{1} << 18;
  return std::max(
      least, ParameterArena::end_of(entries) * static_cast<std::int64_t>(sizeof(float)) / parts);
}

}  // namespace tasuki
