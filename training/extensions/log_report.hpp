// LogReport: means of the observed values, in a JSON file.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "training/extension.hpp"
#include "training/observation.hpp"

namespace tasuki {

// Whenever `due` fires (each epoch by default), and once more at the end of a run that ended in
// between, appends an entry: the mean of every value observed since the last entry, over all ranks,
// and "epoch", "iteration", "elapsed_time". Rank 0 rewrites <out>/log with all entries: a list of
// flat objects, indented by 4. Values that are not finite are null there, because JSON cannot
// express them. Ranks communicate only when an entry is due.
//
// The file is written within a second of an entry and is complete after the run, also after an
// exception. If it cannot be written, training continues and tries again at the next entry; rank 0
// warns when that begins, and when it works again. At the end of the run a failure is an error.
//
// A snapshot holds the newest entries, at most 48 MiB and 3 million values of them; a warning says
// when older ones are left out. A run that is resumed from such a snapshot renames the existing
// "log" to "log.before_iter_N", where N is the first iteration of its own log.
class LogReport : public Extension {
 public:
  explicit LogReport(std::unique_ptr<Trigger> due = every(1, Unit::epoch),
                     std::string filename = "log");
  ~LogReport() override;

  std::string default_name() const override { return "LogReport"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  void on_error(Trainer& trainer) override;
  void serialize(const Serializer& serializer) override;

  // The entries, on every rank (with elapsed times by its own clock). Include <nlohmann/json.hpp>
  // to read them.
  const nlohmann::ordered_json& entries() const { return *entries_; }
  const std::string& filename() const { return filename_; }

 private:
  void append_entry(Trainer& trainer);
  void write_what_is_missing(const Trainer& trainer);
  void write_file_if_due(const Trainer& trainer);
  std::string text_to_save();
  void keep_longer_file(const Trainer& trainer) const;

  std::unique_ptr<Trigger> due_;
  std::string filename_;
  Observation pending_;  // since the last regular entry
  std::int64_t pending_iterations_ = 0;
  // Whether the last entry belongs to a run that ended early: a continued run drops that entry and
  // keeps pending values.
  bool cut_ = false;
  std::unique_ptr<nlohmann::ordered_json> entries_;  // an array
  bool is_unwritten_ = false;                        // whether the file lacks entries
  bool is_loaded_ = false;            // whether it may, because entries are a snapshot's
  bool is_shortened_ = false;         // whether a snapshot has left out entries
  bool keeps_longer_file_ = false;    // so that the file may have them
  bool warns_of_size_ = false;        // rank 0, once
  bool is_failing_ = false;           // the last try to write
  std::optional<double> written_at_;  // elapsed seconds
};

}  // namespace tasuki
