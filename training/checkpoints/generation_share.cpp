#include "training/checkpoints/generation_share.hpp"

#include <map>
#include <set>
#include <variant>

namespace tasuki {
namespace {

std::vector<Tensor*> arrays_of(GenerationShare& share) {
  std::vector<Tensor*> arrays;
  const auto add = [&](NpzEntry& entry) {
    if (auto* const array = std::get_if<Tensor>(&entry.value)) arrays.push_back(array);
  };
  for (NpzEntry& entry : share.state) add(entry);
  for (NpzPiece& piece : share.pieces) add(piece.entry);
  return arrays;
}

}  // namespace

void detach(GenerationShare& share) {
  const std::vector<Tensor*> arrays = arrays_of(share);
  std::map<const Storage*, long> references;
  for (const Tensor* array : arrays) ++references[array->storage().get()];
  std::set<const Storage*> own;
  for (const Tensor* array : arrays)
    if (array->storage().use_count() == references.at(array->storage().get()))
      own.insert(array->storage().get());
  for (Tensor* array : arrays)
    if (!array->device().is_cpu())
      *array = array->to(Device::cpu());
    else if (array->defined() && !own.contains(array->storage().get()))
      *array = array->clone();
}

}  // namespace tasuki
