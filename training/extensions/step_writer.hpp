// StepWriter: the base of extensions that write what each step has reported.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "training/extension.hpp"
#include "training/step_rows.hpp"

namespace tasuki {

class LogReport;

// Keeps the rows of steps in memory. Ranks exchange them, and rank 0 writes them, when the log gets
// an entry, before the state is saved, after 1000 steps, and at the end; so a file has all steps of
// the state that a run resumes from. When an error ends a run of several ranks, the steps since the
// last exchange are not written.
//
// If a file cannot be written, training goes on, and the next entry is the next try; at the end of
// the run it is an error, as with the log. Meanwhile up to 64 MiB wait in memory, and later steps
// are lost. Rank 0 warns when writing begins to fail, when steps begin to be lost, and when it
// works again.
class StepWriter : public Extension {
 public:
  // Right after LogReport.
  int priority() const override { return priority_reader - 1; }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void before_save(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  void on_error(Trainer& trainer) override;

 protected:
  // On rank 0, before the first iteration: makes the file. An error is one on all ranks.
  virtual void open(Trainer& trainer) = 0;
  // On rank 0: adds a row to what is to be written.
  virtual void add_row(const StepRow& row) = 0;
  // On rank 0: adds a new entry of the log. `may_change`: at the end of a run that ended between
  // two entries; a run that goes on has another one in its place.
  virtual void add_entry(Trainer& /*trainer*/, const nlohmann::ordered_json& /*entry*/,
                         bool /*may_change*/) {}
  // On rank 0: writes what was added.
  virtual void write(Trainer& trainer) = 0;
  // On rank 0: the state is about to be saved, and everything was written.
  virtual void note_save() {}
  // On rank 0: bytes that were added and are not written.
  virtual std::int64_t waiting() const = 0;
  // What it writes, for messages.
  virtual std::string place(const Trainer& trainer) const = 0;

  // Adds the rows so far. Collective.
  void add_steps(Trainer& trainer);
  // Adds all entries of the log so far, on rank 0: those of a resumed run, for a new file.
  void add_all_entries(Trainer& trainer);
  // On rank 0: whether more may be added; what is added otherwise is lost.
  bool has_room() const;

 private:
  // Whether the log has a new entry; the same on all ranks.
  bool has_new_entry() const;
  void add_new_entries(Trainer& trainer, bool may_change);
  // On rank 0; tells that it works again.
  void write_and_tell(Trainer& trainer);
  void write_or_warn(Trainer& trainer, bool before_save = false);

  const LogReport* log_ = nullptr;
  StepRows rows_;
  std::int64_t last_entry_ = 0;  // its iteration
  bool is_open_ = false;         // on rank 0
  bool is_failing_ = false;      // the last try to write
  struct Steps {
    std::int64_t count = 0, first = 0, last = 0;
    void add(std::int64_t iteration);
  };
  Steps unwritten_, lost_;  // since writing worked last
  bool has_told_loss_ = false;
};

}  // namespace tasuki
