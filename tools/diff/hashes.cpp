#include "tools/diff/hashes.hpp"

#include <algorithm>
#include <map>

namespace tasuki::diff {
namespace {

const StepHashes::Group* find(const StepHashes& step, const std::string& name) {
  const auto found = std::ranges::find(step.groups, name, &StepHashes::Group::name);
  return found == step.groups.end() ? nullptr : &*found;
}

GroupDifference compare(const StepHashes::Group& a, const StepHashes::Group& b) {
  GroupDifference found{a.name, std::ssize(a.arrays), {}};
  std::map<std::string, std::uint64_t> in_b(b.arrays.begin(), b.arrays.end());
  for (const auto& [path, hash] : a.arrays) {
    const auto other = in_b.find(path);
    if (other == in_b.end() || other->second != hash) found.differing.push_back(path);
    if (other != in_b.end()) in_b.erase(other);
  }
  for (const auto& [path, hash] : b.arrays)
    if (in_b.contains(path)) {
      ++found.arrays;
      found.differing.push_back(path);
    }
  return found;
}

bool differ(const StepHashes& a, const StepHashes& b) {
  return a.loss_hash != b.loss_hash ||
         std::ranges::any_of(compare_groups(a, b), [](const GroupDifference& group) {
           return !group.differing.empty() || !group.what.empty();
         });
}

}  // namespace

std::vector<GroupDifference> compare_groups(const StepHashes& a, const StepHashes& b) {
  std::vector<GroupDifference> groups;
  for (const StepHashes::Group& group : a.groups) {
    if (const auto* const other = find(b, group.name))
      groups.push_back(compare(group, *other));
    else
      groups.push_back({group.name, std::ssize(group.arrays), {}, "only the first run has them"});
  }
  for (const StepHashes::Group& group : b.groups)
    if (find(a, group.name) == nullptr)
      groups.push_back({group.name, std::ssize(group.arrays), {}, "only the second run has them"});
  return groups;
}

HashComparison compare_hashes(const std::filesystem::path& a, const std::filesystem::path& b) {
  HashReader lines_a(a), lines_b(b);
  HashComparison found;
  auto step_a = lines_a.next(), step_b = lines_b.next();
  while (step_a && step_b) {
    if (step_a->iteration < step_b->iteration) {
      step_a = lines_a.next();
      continue;
    }
    if (step_b->iteration < step_a->iteration) {
      step_b = lines_b.next();
      continue;
    }
    const std::int64_t iteration = step_a->iteration;
    ++found.common;
    if (!found.first) found.first = iteration;
    found.last = iteration;
    if (differ(*step_a, *step_b)) {
      found.different = iteration;
      found.has_loss = step_a->loss_hash || step_b->loss_hash;
      found.loss_differs = step_a->loss_hash != step_b->loss_hash;
      found.loss_a = step_a->loss;
      found.loss_b = step_b->loss;
      found.groups = compare_groups(*step_a, *step_b);
      return found;
    }
    found.last_equal = iteration;
    step_a = lines_a.next();
    step_b = lines_b.next();
  }
  return found;
}

}  // namespace tasuki::diff
