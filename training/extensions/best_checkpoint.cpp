#include "training/extensions/best_checkpoint.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "communicator/bytes.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "saving/checkpoint.hpp"
#include "saving/output_layout.hpp"
#include "saving/retention.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

// Of states that keep no id: of what `best` names, unless it is from a later iteration.
std::string id_of_named(const fs::path& out, std::int64_t iteration) {
  const auto named = best_checkpoint(out);
  if (!named || iteration_of(*named) > iteration) return "";
  try {
    return CheckpointManifest::read(*named).id;
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

BestCheckpoint::BestCheckpoint(const std::string& key)
    : value_(key, better_of(key), every(1, Unit::epoch)) {
  value_.demand("the best checkpoint");
}

bool BestCheckpoint::look(Trainer& trainer) {
  return value_.look(trainer) == WatchedValue::Finding::better;
}

void BestCheckpoint::set_record(Record record) {
  value_.set_best(record.value);
  id_ = std::move(record.id);
}

void BestCheckpoint::find(const Trainer& trainer, Communicator* all, bool holds_state) {
  const fs::path& out = trainer.out();
  std::optional<fs::path> found;
  const auto look = [&] {
    if (!holds_state || value_.best().is_known == 0) return;
    if (id_.empty()) id_ = id_of_named(out, trainer.updater().iteration());
    if (!id_.empty()) found = find_checkpoint(out, id_);
  };
  if (all)
    run_on_all(*all, look);
  else
    look();
  bool is_there = !holds_state || found;
  if (all) {
    const auto each = allgather_bytes(*all, Bytes(is_there ? 1 : 0));
    is_there = std::ranges::none_of(each, [](const Bytes& none) { return none.empty(); });
  }
  if (!is_there) {
    set_record({});
    found.reset();
  }
  if (!holds_state) return;
  try {
    if (!found || found != best_checkpoint(out)) write_best(out, found.value_or(""));
  } catch (const Error& error) {
    log_warning("{}; training continues", error.what());
  }
}

void BestCheckpoint::serialize(const Serializer& serializer) {
  if (value_.serialize(serializer) &&
      (!serializer.is_loading() || serializer.contains("checkpoint")))
    serializer("checkpoint", id_);
}

}  // namespace tasuki
