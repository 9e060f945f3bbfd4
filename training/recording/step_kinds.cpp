#include "tasuki/training/recording/step_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tasuki {
namespace {

// Kinds that are remembered per recording that is kept.
constexpr std::size_t kinds_per_recording = 8;

void drop_recording(StepKind& kind) {
  kind.recording.reset();
  kind.runs = 0;
}

}  // namespace

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

StepKind& StepKinds::find(const std::string& name) {
  StepKind& kind = kinds_[name];
  kind.last_used = ++uses_;
  return kind;
}

void StepKinds::drop_invalid(const ModelParts& parts) {
  for (auto& [name, kind] : kinds_) {
    if (!kind.recording || kind.recording->is_valid(parts)) continue;
    drop_recording(kind);
    wasted_ = 0;
  }
}

void StepKinds::drop_recordings() {
  for (auto& [name, kind] : kinds_) kind.recording.reset();
}

void StepKinds::keep(std::size_t most, const std::function<bool(const StepKind& kind)>& counts,
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

void StepKinds::make_room() {
  keep(
      most_recordings_, [](const StepKind& kind) { return kind.recording != nullptr; },
      [this](auto oldest) {
        wasted_ = oldest->second.recording->replays > 1 ? 0 : wasted_ + 1;
        drop_recording(oldest->second);
      });
  keep(
      most_recordings_ * kinds_per_recording, [](const StepKind&) { return true; },
      [this](auto oldest) { kinds_.erase(oldest); });
}

void StepKinds::clear() {
  kinds_.clear();
  wasted_ = 0;
}

}  // namespace tasuki
