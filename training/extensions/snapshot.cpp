#include "training/extensions/snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "communicator/bytes.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "saving/npz.hpp"
#include "saving/output_layout.hpp"
#include "training/resume.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view iteration_field = "{iteration}";

std::string fill_in(std::string name, std::string_view field, std::int64_t value) {
  if (const auto at = name.find(field); at != std::string::npos)
    name.replace(at, field.size(), std::to_string(value));
  return name;
}

struct Found {
  std::int64_t iteration;
  fs::path path;
};

// Of the whole snapshot, of which the file is the part with this suffix.
std::string name_of(const Found& found, const std::string& suffix) {
  const std::string name = found.path.filename().string();
  return name.substr(0, name.size() - suffix.size());
}

// Of a file that is named like `filename`.
std::optional<std::int64_t> iteration_in(const std::string& name, const std::string& filename) {
  const auto at = filename.find(iteration_field);
  if (at == std::string::npos) return std::nullopt;
  const std::string before = filename.substr(0, at);
  const std::string after = filename.substr(at + iteration_field.size());
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return std::nullopt;
  std::int64_t iteration = 0;
  const char* end = name.data() + name.size() - after.size();
  const auto parsed = std::from_chars(name.data() + before.size(), end, iteration);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(iteration) : std::nullopt;
}

// Of what was saved or resumed from last; nothing where that is not known.
std::optional<std::int64_t> last_iteration(const fs::path& folder, const std::string& filename) {
  const auto latest = read_latest(folder);
  if (!latest) return std::nullopt;
  const auto iteration = iteration_in(latest->filename().string(), filename);
  return iteration ? iteration : iteration_of(*latest);
}

// Files in `folder` that are named like `filename` with any iteration, newest first.
std::vector<Found> find_snapshots(const fs::path& folder, const std::string& filename) {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error))
    if (const auto iteration = iteration_in(file.path().filename().string(), filename))
      found.push_back({*iteration, file.path()});
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.iteration > b.iteration; });
  return found;
}

fs::path with_suffix(fs::path path, const std::string& suffix) {
  path += suffix;
  return path;
}

// The newest iteration of which every replica set has a snapshot; the same on all ranks.
std::optional<std::int64_t> newest_iteration(const fs::path& folder, const std::string& filename,
                                             const SavingRanks& ranks) {
  std::vector<std::int64_t> own;
  const std::set<std::string> abandoned = abandoned_in(folder);
  if (ranks.is_first())
    for (const Found& found : find_snapshots(folder, filename + ranks.suffix))
      if (!abandoned.contains(name_of(found, ranks.suffix))) own.push_back(found.iteration);
  if (const auto last = last_iteration(folder, filename);
      last && std::ranges::any_of(own, [&](std::int64_t each) { return each <= *last; }))
    std::erase_if(own, [&](std::int64_t each) { return each > *last; });
  if (ranks.whole == nullptr) return own.empty() ? std::nullopt : std::optional(own.front());
  own.push_back(ranks.is_first() ? 1 : 0);  // after the iterations
  std::int64_t writers = 0;
  std::map<std::int64_t, std::int64_t> count;  // number of writers by iteration
  const Shape length{static_cast<std::int64_t>(own.size())};
  for (const Tensor& list :
       ranks.whole->allgather(Tensor::from(std::span<const std::int64_t>(own), length))) {
    const auto numbers = list.span<std::int64_t>();
    for (const std::int64_t iteration : numbers.first(numbers.size() - 1)) ++count[iteration];
    writers += numbers.back();
  }
  for (auto each = count.rbegin(); each != count.rend(); ++each)
    if (each->second == writers) return each->first;
  return std::nullopt;
}

}  // namespace

Snapshot::Snapshot(Settings settings) : settings_(std::move(settings)) {
  const bool is_sought = settings_.n_retains > 0 || settings_.autoload;
  if (is_sought && !is_numbered())
    fail_everywhere(ErrorKind::usage,
                    "snapshots are found by iteration, but \"{}\" does not contain {{iteration}}",
                    settings_.filename);
}

bool Snapshot::is_numbered() const {
  return settings_.filename.find(iteration_field) != std::string::npos;
}

void Snapshot::initialize(Trainer& trainer) {
  name_latest(trainer);
  if (settings_.autoload) load_newest(trainer);
  if (trainer.updater().iteration() == 0 || !is_saved(trainer)) return;
  saved_iteration_ = trainer.updater().iteration();
  note_saved(trainer);
}

bool Snapshot::is_saved(Trainer& trainer) const {
  if (!is_numbered()) return false;
  const SavingRanks ranks(trainer.communicator(), replicas_.get());
  const std::string name = name_of_iteration(trainer);
  std::error_code ignored;
  const bool is_there =
      !ranks.is_first() ||
      (fs::is_regular_file(with_suffix(trainer.out() / name, ranks.suffix), ignored) &&
       !abandoned_in(trainer.out()).contains(name));
  if (ranks.whole == nullptr) return is_there;
  const auto each = allgather_bytes(*ranks.whole, Bytes(is_there ? 1 : 0));
  return std::ranges::none_of(each, [](const Bytes& none) { return none.empty(); });
}

void Snapshot::note_saved(Trainer& trainer) const {
  const SavingRanks ranks(trainer.communicator(), replicas_.get());
  if (ranks.is_first())
    trainer.note_result(with_suffix(trainer.out() / name_of_iteration(trainer), ranks.suffix));
}

void Snapshot::load_newest(Trainer& trainer) {
  const SavingRanks ranks(trainer.communicator(), replicas_.get());
  const auto iteration = newest_iteration(trainer.out(), settings_.filename, ranks);
  if (!iteration) return;
  const std::string name = fill_in(settings_.filename, iteration_field, *iteration);
  resume(trainer.out() / name, trainer, replicas_.get());
  saved_iteration_ = *iteration;
  if (trainer.is_root()) log_info("resuming from {}", (trainer.out() / name).string());
}

void Snapshot::name_latest(const Trainer& trainer) const {
  if (!trainer.is_root()) return;
  const fs::path& from = trainer.last_saved();
  std::error_code ignored;
  record_start(trainer.out(), from);
  try {
    if (iteration_in(from.filename().string(), settings_.filename) &&
        fs::equivalent(from.has_parent_path() ? from.parent_path() : ".", trainer.out(), ignored))
      write_latest(trainer.out(), from);
  } catch (const Error& error) {
    log_warning("{}; training continues", error.what());
  }
}

void Snapshot::run(Trainer& trainer) {
  if (is_numbered() && saved_iteration_ == trainer.updater().iteration()) return;
  try {
    save(trainer);
    has_failed_ = false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cannot_write) throw;
    has_failed_ = true;
    if (trainer.is_root()) log_warning("{}; training continues", error.what());
  }
}

void Snapshot::finalize(Trainer& trainer) {
  if (trainer.is_stopped() && trainer.saves_by_checkpoint()) return;
  const bool is_wanted = settings_.at_end || (has_failed_ && settings_.retry_at_end);
  if (is_wanted && saved_iteration_ != trainer.updater().iteration()) save(trainer);
}

std::string Snapshot::name_of_iteration(const Trainer& trainer) const {
  const Updater& updater = trainer.updater();
  return fill_in(fill_in(settings_.filename, iteration_field, updater.iteration()), "{epoch}",
                 updater.epoch());
}

void Snapshot::save(Trainer& trainer) {
  const std::string name = name_of_iteration(trainer);
  trainer.restore_output_everywhere();
  const SavingRanks ranks(trainer.communicator(), replicas_.get());
  std::string why_unnamed;
  ranks.on_first([&] {
    // Other ranks that write may be on hosts with other file systems.
    if (replicas_) make_output_folder(trainer.out());
    // Before the snapshot: a name without a file stands for what was saved before.
    try {
      if (is_numbered() && trainer.is_root()) write_latest(trainer.out(), name);
    } catch (const Error& error) {
      why_unnamed = error.what();
    }
  });
  save_snapshot(trainer.out() / name, trainer, replicas_.get());
  if (!why_unnamed.empty()) log_warning("{}; training continues", why_unnamed);
  saved_iteration_ = trainer.updater().iteration();
  note_saved(trainer);
  if (settings_.n_retains > 0 && ranks.is_first()) remove_old(trainer.out());
}

void Snapshot::remove_old(const fs::path& folder) const {
  const std::string suffix = replicas_ ? replicas_->suffix() : "";
  std::vector<Found> found = find_snapshots(folder, settings_.filename + suffix);
  std::set<std::string> abandoned;
  try {
    abandoned = abandoned_in(folder);
  } catch (const Error& error) {
    return log_verbose("old snapshots stay: {}", error.what());
  }
  std::erase_if(found, [&](const Found& each) {
    return each.iteration > saved_iteration_ || abandoned.contains(name_of(each, suffix));
  });
  for (auto i = static_cast<std::size_t>(settings_.n_retains); i < found.size(); ++i) {
    std::error_code ignored;
    fs::remove(found[i].path, ignored);
  }
}

std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot> snapshot,
                                                     Communicator& communicator,
                                                     const ReplicaSets& sets) {
  return create_multi_node_snapshot(std::move(snapshot),
                                    std::make_shared<const ReplicaSet>(communicator, sets));
}

std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot> snapshot,
                                                     std::shared_ptr<const ReplicaSet> replicas) {
  snapshot->replicas_ = std::move(replicas);
  return snapshot;
}

void save_snapshot(const fs::path& path, Trainer& trainer, const ReplicaSet* replicas) {
  const PhaseScope saving(Phase::saving);
  trainer.announce_save();
  const SavingRanks ranks(trainer.communicator(), replicas);
  std::vector<NpzEntry> entries;
  trainer.serialize(Serializer::saver(entries, ranks.members));
  ranks.on_first([&] { write_npz(with_suffix(path, ranks.suffix), entries); });
  trainer.note_saved(path);
}

std::vector<fs::path> snapshots_in(const fs::path& folder, const std::string& filename,
                                   const std::string& suffix) {
  std::vector<fs::path> paths;
  std::vector<Found> found = find_snapshots(folder, filename + suffix);
  const std::int64_t last = last_iteration(folder, filename).value_or(INT64_MAX);
  const std::set<std::string> abandoned = abandoned_in(folder);
  std::stable_partition(found.begin(), found.end(), [&](const Found& each) {
    return each.iteration <= last && !abandoned.contains(name_of(each, suffix));
  });
  for (const Found& each : found) {
    const std::string path = each.path.string();
    paths.emplace_back(path.substr(0, path.size() - suffix.size()));
  }
  return paths;
}

std::optional<fs::path> newest_snapshot(const fs::path& folder, const std::string& filename) {
  const std::vector<fs::path> found = snapshots_in(folder, filename);
  if (found.empty()) return std::nullopt;
  return found.front();
}

}  // namespace tasuki
