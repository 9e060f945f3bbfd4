#include "training/recording/batch_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tasuki {
namespace {

// Kinds that are remembered per recording that is kept.
constexpr std::size_t kinds_per_recording = 8;

void drop_recording(BatchKind& kind) {
  kind.recording.reset();
  kind.runs = 0;
}

}  // namespace

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

std::string kind_of(const Batch& batch, std::int64_t global_examples) {
  // Of the examples of all ranks, gradients that travel in 16 bits know the power of two.
  std::string kind = fmt::format("{} of 2^{}", batch.size(),
                                 std::bit_width(static_cast<std::uint64_t>(global_examples - 1)));
  for (const BatchField& field : batch.fields()) {
    kind += fmt::format("|{} {}", field.name, field.is_target);
    if (field.source)
      kind += fmt::format(" {}", fmt::ptr(field.source.get()));
    else
      kind += fmt::format(" {} {}", field.values.shape().text(), name_of(field.values.dtype()));
    if (field.lengths) kind += " ragged";
  }
  return kind;
}

BatchKind& BatchKinds::find(const std::string& name) {
  BatchKind& kind = kinds_[name];
  kind.last_used = ++uses_;
  return kind;
}

void BatchKinds::drop_invalid(const ModelParts& parts) {
  for (auto& [name, kind] : kinds_) {
    if (!kind.recording || kind.recording->is_valid(parts)) continue;
    drop_recording(kind);
    wasted_ = 0;
  }
}

void BatchKinds::drop_recordings() {
  for (auto& [name, kind] : kinds_) kind.recording.reset();
}

void BatchKinds::keep(std::size_t most, const std::function<bool(const BatchKind& kind)>& counts,
                      const std::function<void(Kinds::iterator oldest)>& drop) {
  const auto counted = [&](const auto& entry) { return counts(entry.second); };
  while (static_cast<std::size_t>(std::ranges::count_if(kinds_, counted)) > most) {
    auto oldest = kinds_.end();
    for (auto at = kinds_.begin(); at != kinds_.end(); ++at)
      if (counted(*at) &&
          (oldest == kinds_.end() || at->second.last_used < oldest->second.last_used))
        oldest = at;
    drop(oldest);
  }
}

void BatchKinds::make_room() {
  keep(
      most_recordings_, [](const BatchKind& kind) { return kind.recording != nullptr; },
      [this](auto oldest) {
        wasted_ = oldest->second.recording->replays > 1 ? 0 : wasted_ + 1;
        drop_recording(oldest->second);
      });
  keep(
      most_recordings_ * kinds_per_recording, [](const BatchKind&) { return true; },
      [this](auto oldest) { kinds_.erase(oldest); });
}

void BatchKinds::clear() {
  kinds_.clear();
  wasted_ = 0;
}

}  // namespace tasuki
