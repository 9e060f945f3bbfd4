#include "training/extensions/log_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "saving/serializer.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// Of what a snapshot says, as a file may have it compressed; what is saved stays well below.
constexpr std::int64_t most_bytes = std::int64_t{64} << 20;
constexpr std::size_t most_saved_bytes = std::size_t{48} << 20;
constexpr std::int64_t most_saved_values = limits_of_logs.values / 4 * 3;

// As bytes, because texts of NumPy take four for a character, and this one grows with the run.
// Older versions have saved a text.
void serialize_text(const Serializer& serializer, std::string& text) {
  const char* const name = "_log";
  const auto shape = serializer.is_loading() ? serializer.find_shape(name)
                                             : Shape{static_cast<std::int64_t>(text.size())};
  if (!shape) return serializer(name, text);
  if (serializer.is_loading() && shape->count() > most_bytes)
    fail_everywhere(ErrorKind::data, "the snapshot's log: expected at most {} bytes, found {}",
                    most_bytes, shape->count());
  const Tensor bytes = Tensor::empty(*shape, DType::uint8);
  if (!serializer.is_loading()) std::memcpy(bytes.raw(), text.data(), text.size());
  serializer(name, bytes);
  if (serializer.is_loading()) text.assign(static_cast<const char*>(bytes.raw()), bytes.bytes());
}

// What a log may be made of: a list of objects with numbers and texts.
nlohmann::ordered_json entries_of(const std::string& text) try {
  nlohmann::ordered_json entries = parse_ordered_json(text, "the snapshot's log", limits_of_logs);
  const auto is_entry = [](const nlohmann::ordered_json& entry) {
    return entry.is_object() && std::ranges::none_of(entry, [](const auto& value) {
             return value.is_structured() || value.is_boolean();
           });
  };
  if (!entries.is_array() || !std::ranges::all_of(entries, is_entry))
    fail(ErrorKind::data,
         "the snapshot's log: expected a list of objects with numbers and texts, found something "
         "else");
  return entries;
} catch (const Error& error) {  // all ranks have the same text
  throw Error(error.kind(), error.what(), ErrorScope::every_rank);
}

// As parse_json counts them.
std::int64_t values_of(const nlohmann::ordered_json& entries) {
  std::int64_t count = 1;
  for (const auto& entry : entries) count += 1 + std::ssize(entry);
  return count;
}

// As in the file, also for those that print entries.
nlohmann::ordered_json or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace

LogReport::LogReport(std::unique_ptr<Trigger> due, std::string filename)
    : due_(std::move(due)),
      filename_(std::move(filename)),
      entries_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::array())) {}

LogReport::~LogReport() = default;

void LogReport::initialize(Trainer& trainer) {
  warns_of_size_ = trainer.is_root();
}

void LogReport::run(Trainer& trainer) {
  pending_.add(trainer.observation());
  ++pending_iterations_;
  if (!due_->fires(trainer)) return;
  append_entry(trainer);
  pending_.clear();
  pending_iterations_ = 0;
}

void LogReport::finalize(Trainer& trainer) {
  if (pending_iterations_ > 0) {
    append_entry(trainer);
    cut_ = true;
  }
  // The folder may have been removed since the last entry, and the process that saved the loaded
  // entries may have ended before it wrote them.
  std::error_code ignored;
  if (trainer.is_root() && !entries_->empty() &&
      (std::exchange(is_loaded_, false) ||
       !std::filesystem::exists(trainer.out() / filename_, ignored)))
    is_unwritten_ = true;
  write_what_is_missing(trainer);
}

void LogReport::on_error(Trainer& trainer) {
  write_what_is_missing(trainer);
}

void LogReport::write_what_is_missing(const Trainer& trainer) {
  if (!is_unwritten_) return;
  trainer.restore_output();
  if (std::exchange(keeps_longer_file_, false)) keep_longer_file(trainer);
  write_file(trainer.out() / filename_, json_text(*entries_, 4));
  is_unwritten_ = false;
}

// It may have the entries that the loaded snapshot lacks.
void LogReport::keep_longer_file(const Trainer& trainer) const {
  const std::filesystem::path file = trainer.out() / filename_;
  std::filesystem::path kept = file;
  const std::int64_t first =
      entries_->empty() ? 0 : entries_->front().value("iteration", std::int64_t{0});
  kept += fmt::format(".before_iter_{}", first);
  std::error_code error;
  if (!std::filesystem::exists(file, error) || std::filesystem::exists(kept, error)) return;
  std::filesystem::rename(file, kept, error);
  if (error)
    log_warning("{} cannot be renamed to {} and is overwritten: {}", file.string(),
                kept.filename().string(), error.message());
  else
    log_info("the log continues with the snapshot's {} entries; older ones are in {}",
             entries_->size(), kept.string());
}

void LogReport::append_entry(Trainer& trainer) {
  if (cut_) entries_->erase(entries_->size() - 1);
  cut_ = false;
  const Observation all = pending_.over_ranks(trainer.communicator());
  trainer.announce_report(all);
  auto entry = nlohmann::ordered_json::object();
  for (const auto& [key, value] : all.values())
    if (value.count > 0) entry[key] = or_null(value.mean());
  entry["epoch"] = trainer.updater().epoch();
  entry["iteration"] = trainer.updater().iteration();
  entry["elapsed_time"] = trainer.elapsed_time();
  entries_->push_back(std::move(entry));
  if (trainer.is_root()) write_file_if_due(trainer);
}

// At most once a second even if there are many entries, because the whole file is written and
// synced every time.
void LogReport::write_file_if_due(const Trainer& trainer) {
  constexpr double interval = 1;  // seconds
  is_unwritten_ = true;
  const double now = trainer.elapsed_time();
  if (written_at_ && now - *written_at_ < interval) return;
  written_at_ = now;
  try {
    write_what_is_missing(trainer);
    if (std::exchange(is_failing_, false))
      log_warning("{} can be written again, and has all entries",
                  (trainer.out() / filename_).string());
  } catch (const Error& error) {
    if (!std::exchange(is_failing_, true)) log_warning("{}; training continues", error.what());
  }
}

std::string LogReport::text_to_save() {
  auto kept = *entries_;
  if (cut_) kept.erase(kept.size() - 1);
  const std::size_t all = kept.size();
  std::string text = json_text(kept);
  while (text.size() > most_saved_bytes || values_of(kept) > most_saved_values) {
    kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>((kept.size() + 1) / 2));
    text = json_text(kept);
  }
  if (kept.size() == all) return text;
  is_shortened_ = true;
  if (std::exchange(warns_of_size_, false))
    log_warning(
        "the log has {} entries, of which snapshots hold the newest {} ({} MiB at most); a run "
        "that "
        "resumes from one continues a log of these alone, and keeps the present file beside it; "
        "log less often to avoid that",
        all, kept.size(), most_saved_bytes >> 20);
  return text;
}

void LogReport::serialize(const Serializer& serializer) {
  std::string text;
  if (!serializer.is_loading()) text = text_to_save();
  serialize_text(serializer, text);
  constexpr const char* shortened = "_log_is_shortened";
  if (serializer.is_loading() ? serializer.contains(shortened) : is_shortened_) {
    std::int64_t yes = 1;
    serialize_count(serializer, shortened, yes);
    is_shortened_ = true;
  }
  serialize_count(serializer, "pending_iterations", pending_iterations_);
  pending_.serialize(serializer["_summary"]);
  if (!serializer.is_loading() || serializer.contains("_trigger"))
    due_->serialize(serializer["_trigger"]);
  if (!serializer.is_loading()) return;
  *entries_ = entries_of(text);
  cut_ = false;
  is_loaded_ = true;
  keeps_longer_file_ = is_shortened_;
}

}  // namespace tasuki
