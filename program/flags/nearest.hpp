// "Did you mean ...?": finds the name that a user probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tasuki::program {

// Number of single-character insertions, deletions, substitutions and swaps of neighbours that turn
// `a` into `b` (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b);

// The candidate that `name` probably stands for: one that `name` abbreviates, else the closest
// within a third of its length (at least 2 edits, but fewer than its length). For an abbreviation
// with typing errors ("bach" for "batchsize") the distance is its errors plus 1. Empty if no
// candidate is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace tasuki::program
