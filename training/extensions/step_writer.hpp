// StepWriter: the base of extensions that write what each step has reported.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "training/extension.hpp"
#include "training/step_rows.hpp"

namespace tasuki {

class LogReport;

// Keeps the rows of steps in memory. Ranks exchange them, and rank 0 writes them, when the log gets
// an entry, before the state is saved, after 1000 steps, and at the end; so a file has all steps of
// the state that a run resumes from. If a file cannot be written, rank 0 warns, training goes on,
// and the next entry is the next try; at the end of the run it is an error, as with the log. When
// an error ends a run of several ranks, the steps since the last exchange are not written.
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
  // On rank 0: adds rows to what is to be written.
  virtual void add_rows(Trainer& trainer, std::vector<StepRow> rows) = 0;
  // On rank 0: adds a new entry of the log. `may_change`: at the end of a run that ended between
  // two entries; a run that goes on has another one in its place.
  virtual void add_entry(Trainer& /*trainer*/, const nlohmann::ordered_json& /*entry*/,
                         bool /*may_change*/) {}
  // On rank 0: writes what was added.
  virtual void write(Trainer& trainer) = 0;

  // Adds the rows so far. Collective.
  void add_steps(Trainer& trainer);
  // Adds all entries of the log so far, on rank 0: those of a resumed run, for a new file.
  void add_all_entries(Trainer& trainer);

 private:
  // Whether the log has a new entry; the same on all ranks.
  bool has_new_entry() const;
  void add_new_entries(Trainer& trainer, bool may_change);
  void write_or_warn(Trainer& trainer);

  const LogReport* log_ = nullptr;
  StepRows rows_;
  std::int64_t last_entry_ = 0;  // its iteration
  bool is_open_ = false;         // on rank 0
};

}  // namespace tasuki
