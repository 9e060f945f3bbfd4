#include "program/data/chosen_parameters.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "optimizer/parameter_group.hpp"

namespace tasuki::program {
namespace {

// For parameters at any depth below what the pattern matches.
std::string below(const std::string& pattern) {
  return pattern + "/**";
}

bool chooses(const std::string& pattern, std::string_view path) {
  return matches(pattern, path) || matches(below(pattern), path);
}

}  // namespace

bool is_chosen(const std::vector<std::string>& patterns, std::string_view path) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return chooses(pattern, path); });
}

void check_patterns(const char* flag, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names, Communicator& communicator) {
  for (const std::string& pattern : patterns) {
    const auto found = std::ranges::count_if(
        names, [&](const std::string& name) { return chooses(pattern, name); });
    // Of a model on several ranks, each has other parameters.
    const Tensor on_all = Tensor::full({}, static_cast<double>(found), DType::int64);
    communicator.allreduce(on_all);
    if (on_all.item() > 0) continue;
    fail_everywhere(ErrorKind::usage,
                    "{} {}: no path of the model matches (* stands for any characters but /, ** "
                    "for any); --dry-run lists the paths, the first one is {}",
                    flag, printable(pattern), names.empty() ? "missing" : names.front());
  }
}

void freeze_chosen(const std::vector<std::string>& patterns, const Module& whole,
                   const Module& trained, Optimizer& optimizer) {
  if (&whole == &trained) {
    // The patterns themselves, which snapshots keep.
    const std::vector<Module::NamedParameter> all = whole.all_parameters();
    for (const std::string& pattern : patterns)
      for (const std::string& each : {pattern, below(pattern)})
        if (std::ranges::any_of(all, [&](const auto& named) { return matches(each, named.path); }))
          optimizer.freeze(each);
    return;
  }
  std::map<const Parameter*, std::string> path_of;
  for (const auto& [path, parameter] : whole.all_parameters()) path_of.emplace(parameter, path);
  for (const auto& [path, parameter] : trained.all_parameters())
    if (const auto found = path_of.find(parameter);
        found != path_of.end() && is_chosen(patterns, found->second))
      optimizer.freeze(path);
}

}  // namespace tasuki::program
