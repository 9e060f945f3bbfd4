#include "tasuki/training/extensions/snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/model_file.hpp"
#include "tasuki/training/trainer.hpp"

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

// Files in `folder` that are named like `filename` with any iteration, newest first.
std::vector<Found> find_snapshots(const fs::path& folder, const std::string& filename) {
  const auto at = filename.find(iteration_field);
  if (at == std::string::npos) return {};
  const std::string before = filename.substr(0, at);
  const std::string after = filename.substr(at + iteration_field.size());
  std::vector<Found> found;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    const std::string name = file.path().filename().string();
    if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
        !name.ends_with(after))
      continue;
    std::int64_t iteration = 0;
    const char* end = name.data() + name.size() - after.size();
    const auto parsed = std::from_chars(name.data() + before.size(), end, iteration);
    if (parsed.ec == std::errc() && parsed.ptr == end) found.push_back({iteration, file.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.iteration > b.iteration; });
  return found;
}

// Work of rank 0 that all ranks wait for and whose error they share.
void on_root(Trainer& trainer, const std::function<void()>& work) {
  if (trainer.communicator() == nullptr) return work();
  run_on_root(*trainer.communicator(), 0, [&] {
    work();
    return Bytes();
  });
}

}  // namespace

Snapshot::Snapshot(Settings settings) : settings_(std::move(settings)) {
  if (settings_.n_retains > 0 && settings_.filename.find(iteration_field) == std::string::npos)
    fail_everywhere(ErrorKind::usage,
                    "snapshots are kept by iteration, but \"{}\" has no {{iteration}} in it",
                    settings_.filename);
}

void Snapshot::run(Trainer& trainer) {
  try {
    save(trainer);
    has_failed_ = false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cannot_write) throw;
    has_failed_ = true;
    if (trainer.is_root()) log_warning("{}; training goes on", error.what());
  }
}

void Snapshot::finalize(Trainer& trainer) {
  const bool is_wanted = settings_.at_end || has_failed_;
  if (is_wanted && saved_iteration_ != trainer.updater().iteration()) save(trainer);
}

void Snapshot::save(Trainer& trainer) {
  const Updater& updater = trainer.updater();
  std::string name = fill_in(settings_.filename, iteration_field, updater.iteration());
  name = fill_in(std::move(name), "{epoch}", updater.epoch());
  save_snapshot(trainer.out() / name, trainer);
  saved_iteration_ = updater.iteration();
  if (settings_.n_retains > 0 && trainer.is_root()) remove_old(trainer.out());
}

void Snapshot::remove_old(const fs::path& folder) const {
  const std::vector<Found> found = find_snapshots(folder, settings_.filename);
  for (auto i = static_cast<std::size_t>(settings_.n_retains); i < found.size(); ++i) {
    std::error_code ignored;
    fs::remove(found[i].path, ignored);
  }
}

void save_snapshot(const fs::path& path, Trainer& trainer) {
  std::vector<NpzEntry> entries;
  trainer.serialize(Serializer::saver(entries, trainer.communicator()));
  on_root(trainer, [&] { write_npz(path, entries); });
}

void resume(const fs::path& path, Trainer& trainer) {
  std::unique_ptr<NpzFile> file;
  on_root(trainer, [&] {
    file = std::make_unique<NpzFile>(path, /*require_hash=*/true);
    const std::string difference =
        describe_difference(*file, "updater/model:main/", trainer.updater().optimizer().model());
    if (!difference.empty()) fail(ErrorKind::data, "{}", difference);
  });
  trainer.serialize(Serializer::loader(file.get(), trainer.communicator()));
}

std::optional<fs::path> newest_snapshot(const fs::path& folder, const std::string& filename) {
  const std::vector<Found> found = find_snapshots(folder, filename);
  if (found.empty()) return std::nullopt;
  return found.front().path;
}

}  // namespace tasuki
