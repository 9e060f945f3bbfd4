// States of single objects with a number that no run has saved.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "saving/npz.hpp"
#include "saving/serializer.hpp"
#include "temporary_folder.hpp"

namespace tasuki::testing {

// Loads an object from its own state, in which the number `name` is another one.
template <class Object>
void load_with(Object& object, const std::string& name, double value) {
  const TemporaryFolder folder;
  std::vector<NpzEntry> entries;
  object.serialize(Serializer::saver(entries, nullptr));
  const auto entry = std::ranges::find(entries, name, &NpzEntry::name);
  ASSERT_NE(entry, entries.end()) << name;
  *std::get<Tensor>(entry->value).template data<double>() = value;
  write_npz(folder / "state", entries);
  const NpzFile file(folder / "state");
  object.serialize(Serializer::loader(&file, nullptr));
}

}  // namespace tasuki::testing
