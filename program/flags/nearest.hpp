// "Did you mean ...?"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tasuki::program {

// Number of single-character insertions, deletions, substitutions and swaps of neighbours that turn
// `a` into `b` (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b);

// The candidate that was probably meant by `name`: one that `name` abbreviates, else the closest
// within a third of its length (at least 2 edits, but fewer than its length), where an abbreviation
// with slips in it ("bach" for "batchsize") is one edit more than its slips. Empty when none is
// near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace tasuki::program
