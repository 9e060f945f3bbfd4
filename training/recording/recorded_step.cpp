#include "tasuki/training/recording/recorded_step.hpp"

#include <algorithm>

namespace tasuki {

ModelParts parts_of(const std::vector<const Module*>& models) {
  ModelParts parts;
  for (const Module* model : models) {
    for (const Module::NamedParameter& named : model->parameters())
      parts.push_back(named.parameter);
    for (const Module::NamedBuffer& buffer : model->buffers())
      parts.push_back(buffer.tensor->raw());
  }
  return parts;
}

bool RecordedStep::is_valid() const {
  return numbers->is_valid() &&
         std::ranges::all_of(dependencies,
                             [](const Dependency& each) {
                               return each.revision->is_alive &&
                                      each.revision->number == each.number;
                             }) &&
         std::ranges::all_of(requests, [](const auto& request) { return request->is_alive(); });
}

}  // namespace tasuki
