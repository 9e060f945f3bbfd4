// Trainer: runs an updater until a stop trigger fires, and calls extensions in between, like
// Chainer's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "training/extension.hpp"
#include "training/observation.hpp"
#include "training/output_folder.hpp"
#include "training/trigger.hpp"
#include "training/updater.hpp"

namespace tasuki {

// How an extension is attached; the extension chooses what is left unset.
struct Attachment {
  std::unique_ptr<Trigger> trigger = nullptr;
  std::string name = "";
  std::optional<int> priority = std::nullopt;
};

class Trainer {
 public:
  // The ranks that train together are the updater's (Updater::communicator).
  Trainer(std::unique_ptr<Updater> updater, std::unique_ptr<Trigger> stop,
          std::filesystem::path out = "result");
  // With an OutputFolder, which rank 0 may already have locked (OutputFolder::take).
  Trainer(std::unique_ptr<Updater> updater, std::unique_ptr<Trigger> stop,
          std::shared_ptr<OutputFolder> out);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Extensions run after each iteration in which their trigger fires, highest priority first, and
  // among equals in order of attachment. A name that is in use gets "_1", "_2", ... appended.
  template <class E>
  E& extend(std::unique_ptr<E> extension, Attachment attachment = {}) {
    E& attached = *extension;
    attach(std::move(extension), std::move(attachment));
    return attached;
  }
  // The name under which an extension was attached.
  const std::string& name_of(const Extension& extension) const;
  // Null if there is none of that name, or if it is not an E.
  template <class E = Extension>
  E* find_extension(const std::string& name) const {
    return dynamic_cast<E*>(attached_as(name));
  }
  // In order of attachment.
  std::vector<std::string> extension_names() const;

  // Trains until the stop trigger fires. After a resume, first reruns the extensions that run after
  // a save (Extension::priority), because the process may have ended before they ran. If training
  // is already over, no iteration runs, but extensions are finalized again. Rank 0 first makes the
  // output folder and keeps it locked (output_folder.hpp). Throws before the first iteration if the
  // folder cannot be made or another job holds it, or if ranks disagree about the size, shards or
  // order of the data set, the global batch, the seed, the length of training or the extensions.
  //
  // When a rank is asked to stop (core/stop_request.hpp), all ranks end after the same iteration,
  // as if the stop trigger had fired there, save their state and throw Stopped. The state is saved
  // by the attached Checkpoint; if there is none or it fails, by the first attached Snapshot whose
  // file names contain the iteration; if there is none either, by the trainer itself, as
  // snapshot_iter_{iteration}. Ranks whose communicator exchanges nothing ("dummy") end at the end
  // of an epoch, those that train by themselves (LocalSteps) when they synchronise.
  //
  // If a file cannot be written at the end of a run, the other extensions still save. Then the
  // Checkpoint's error is thrown, or, if it has none, the first error of another extension. In a
  // stopped run that saved a snapshot instead, the Checkpoint's error is only a warning, unless
  // another file failed, too.
  //
  // Warns, in run_job, if the job has several ranks but the updater knows only one: each rank would
  // train a separate model, and all would write to one folder.
  void run();

  Updater& updater() const { return *updater_; }
  Communicator* communicator() const { return communicator_; }
  // Whether this process writes and prints.
  bool is_root() const { return communicator_ == nullptr || communicator_->rank() == 0; }
  const std::filesystem::path& out() const { return out_->path(); }
  // For extensions that write files, to be called on rank 0 before they do: makes the folder again
  // if it was removed. out() may change then.
  void restore_output() const { out_->restore(); }
  // restore_output() for all ranks, which have the same out() afterwards. Collective.
  void restore_output_everywhere();
  // The program's flag for resuming from a snapshot, for messages: "--resume".
  void set_resume_flag(std::string flag) { resume_flag_ = std::move(flag); }
  // Call it when a checkpoint or snapshot of this run was saved or loaded; messages then name it as
  // the last one.
  void note_saved(const std::filesystem::path& path);
  // Empty: none.
  const std::filesystem::path& last_saved() const { return last_saved_; }
  // Call it on the rank that has written a file of results of the current iteration.
  void note_result(const std::filesystem::path& file);
  // The files noted in the last iteration in which note_result() was called.
  const std::vector<std::filesystem::path>& results() const { return results_; }
  TrainingLength length() const { return stop_->length(); }
  // Whether all iterations are done.
  bool is_over() const { return stop_->is_over(*this); }
  // Seconds of training, including those before a resume.
  double elapsed_time() const;
  // Values of the current iteration: this rank's own, unless marked as the job's.
  Observation& observation() { return observation_; }

  // Whether `key` may still be observed in a later iteration (Extension::may_observe), by an
  // extension that runs before the stop trigger is checked.
  bool may_yet_observe(const std::string& key) const;
  // Ends the run after this iteration as a request to stop does, with this error in place of
  // Stopped. All ranks call it.
  void fail_after_saving(Error error) { failure_ = std::move(error); }
  // Whether the run ends early, because it was asked to stop or by fail_after_saving(). For
  // Extension::finalize: the process may be killed soon, so an extension should leave out work that
  // takes long.
  bool is_stopped() const { return is_stopped_; }
  // True if a Checkpoint is attached and has not failed: it then saves the state of a run that ends
  // early, and no Snapshot does.
  bool saves_by_checkpoint() const;

  // Give every extension the chance to object, by throwing an exception, before values of all ranks
  // or of this rank alone are reported, and before a snapshot or checkpoint is made
  // (Extension::before_report, before_own_report, before_save). announce_save() also ends the
  // update of the last step (Updater::flush).
  void announce_report(const Observation& all);
  void announce_own_report();
  void announce_save();

  // Updater, extensions, triggers and elapsed time. Attach all extensions before loading.
  void serialize(const Serializer& serializer);

 private:
  struct Attached;
  void attach(std::unique_ptr<Extension> extension, Attachment attachment);
  Extension* attached_as(const std::string& name) const;
  struct Release {
    void operator()(OutputFolder* folder) const { folder->release(); }
  };
  // Null on ranks other than 0, and if the folder was taken before.
  std::unique_ptr<OutputFolder, Release> take_output() const;
  void check_same_everywhere() const;
  void warn_of_lonely_ranks() const;
  void run_until_stop();
  // Runs an extension, if its trigger fires.
  void run_if_due(Attached& attached);
  // Runs what may be missing in the iteration that was resumed from, because the process ended
  // after the save.
  void run_what_follows_saves();
  // Finalizes all extensions, which save. Returns the error that run() throws if a file could not
  // be written.
  std::optional<Error> finalize_extensions();
  bool is_asked_to_stop() const;
  std::string how_to_go_on() const;
  void say_last_saved() const;
  void save_after_error() noexcept;
  std::vector<Attached*> by_priority() const;

  std::unique_ptr<Updater> updater_;
  std::unique_ptr<Trigger> stop_;
  std::shared_ptr<OutputFolder> out_;
  Communicator* communicator_;
  std::string resume_flag_;
  std::filesystem::path last_saved_;                   // empty: none
  std::vector<std::unique_ptr<Attached>> extensions_;  // in order of attachment
  Observation observation_;
  std::vector<std::filesystem::path> results_;
  std::int64_t iteration_of_results_ = 0;
  bool is_resumed_ = false;       // since the last run()
  std::optional<Error> failure_;  // to end with after this iteration
  bool is_stopped_ = false;
  bool has_checkpoint_failed_ = false;  // when the run ended
  double elapsed_before_ = 0;           // seconds, of the runs that this one continues
  std::optional<double> started_at_;
};

}  // namespace tasuki
