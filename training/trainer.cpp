#include "training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/leave.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/job_process.hpp"
#include "core/log.hpp"
#include "core/stop_request.hpp"
#include "core/system_error.hpp"
#include "saving/output_layout.hpp"
#include "saving/serializer.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki {
namespace {

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// The first one with a separate file for each iteration; null if there is none.
Snapshot* numbered_snapshot(const Trainer& trainer) {
  for (const std::string& name : trainer.extension_names()) {
    auto* const found = trainer.find_extension<Snapshot>(name);
    if (found != nullptr && found->is_numbered()) return found;
  }
  return nullptr;
}

// "checkpoint" or "snapshot".
const char* kind_of(const std::filesystem::path& saved) {
  return CheckpointName::parse(saved.filename().string()) ? "checkpoint" : "snapshot";
}

// The rank of this process in mpirun's job.
struct Place {
  int rank = 0, ranks = 1;
};

Place place_in_job() {
  Place place;
  int is_begun = 0, is_over = 0;
  TASUKI_MPI(MPI_Initialized, &is_begun);
  TASUKI_MPI(MPI_Finalized, &is_over);
  if (is_begun == 0 || is_over != 0) return place;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &place.rank);
  TASUKI_MPI(MPI_Comm_size, MPI_COMM_WORLD, &place.ranks);
  return place;
}

}  // namespace

struct Trainer::Attached {
  std::string name;
  int priority;
  std::unique_ptr<Trigger> trigger;
  std::unique_ptr<Extension> extension;
  bool has_run = false;
};

Trainer::Trainer(std::unique_ptr<Updater> updater, std::unique_ptr<Trigger> stop,
                 std::filesystem::path out)  // NOLINT(performance-unnecessary-value-param): moved
    : Trainer(std::move(updater), std::move(stop), std::make_shared<OutputFolder>(std::move(out))) {
}

Trainer::Trainer(std::unique_ptr<Updater> updater, std::unique_ptr<Trigger> stop,
                 std::shared_ptr<OutputFolder> out)
    : updater_(std::move(updater)),
      stop_(std::move(stop)),
      out_(std::move(out)),
      communicator_(updater_->communicator()) {}

Trainer::~Trainer() = default;

void Trainer::attach(std::unique_ptr<Extension> extension, Attachment attachment) {
  const std::string wanted = attachment.name.empty() ? extension->default_name() : attachment.name;
  std::string name = wanted;
  for (int i = 1; attached_as(name) != nullptr; ++i) name = fmt::format("{}_{}", wanted, i);
  auto trigger = attachment.trigger ? std::move(attachment.trigger) : extension->default_trigger();
  const int priority = attachment.priority.value_or(extension->priority());
  extensions_.push_back(std::make_unique<Attached>(
      Attached{std::move(name), priority, std::move(trigger), std::move(extension)}));
}

Extension* Trainer::attached_as(const std::string& name) const {
  for (const auto& each : extensions_)
    if (each->name == name) return each->extension.get();
  return nullptr;
}

const std::string& Trainer::name_of(const Extension& extension) const {
  const auto found = std::find_if(extensions_.begin(), extensions_.end(), [&](const auto& each) {
    return each->extension.get() == &extension;
  });
  TASUKI_CHECK(found != extensions_.end(), "extension {} is not attached to this trainer",
               extension.default_name());
  return (*found)->name;
}

std::vector<std::string> Trainer::extension_names() const {
  std::vector<std::string> names;
  for (const auto& each : extensions_) names.push_back(each->name);
  return names;
}

std::vector<Trainer::Attached*> Trainer::by_priority() const {
  std::vector<Attached*> sorted;
  for (const auto& each : extensions_) sorted.push_back(each.get());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Attached* a, const Attached* b) { return a->priority > b->priority; });
  return sorted;
}

std::unique_ptr<OutputFolder, Trainer::Release> Trainer::take_output() const {
  std::unique_ptr<OutputFolder, Release> taken;
  const auto take = [&] {
    if (out_->is_taken()) return Bytes();
    out_->take(OldResults::join);
    taken.reset(out_.get());
    return Bytes();
  };
  if (communicator_)
    run_on_root(*communicator_, 0, take);
  else
    take();
  return taken;
}

void Trainer::restore_output_everywhere() {
  if (communicator_ == nullptr) return restore_output();
  const Bytes path = run_on_root(*communicator_, 0, [&] {
    restore_output();
    return text_to_bytes(out_->name().string());
  });
  if (!is_root()) out_->follow(bytes_to_text(path));
}

// Ranks with other numbers of steps, or with extensions (which are collective) that others lack,
// would wait for each other; other batches or seeds would train something else without notice.
void Trainer::check_same_everywhere() const {
  if (communicator_ == nullptr) return;
  std::vector<std::string> lines = updater_->common_settings();
  lines.push_back(fmt::format("{} steps per epoch", updater_->steps_per_epoch()));
  const TrainingLength end = length();
  if (end.epochs) lines.push_back(fmt::format("an end after {} epochs", *end.epochs));
  if (end.iterations) lines.push_back(fmt::format("an end after {} iterations", *end.iterations));
  check_agreement(*communicator_, lines,
                  "all ranks must train equally long, on the same data in the same batches");
  lines.clear();
  for (const std::string& name : extension_names()) lines.push_back("extension " + name);
  check_agreement(
      *communicator_, lines,
      "all ranks must attach the same extensions (those that print or write do so on rank 0 only)");
}

void Trainer::run() {
  warn_of_lonely_ranks();
  const auto taken = take_output();
  check_same_everywhere();
  try {
    run_until_stop();
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    // A child that user code has forked has none of the threads for which destructors wait, and its
    // parent's lock of the output folder.
    if (!is_job_process()) std::terminate();
    save_after_error();
    if (communicator_ != nullptr) leave_after_error(*communicator_);
    throw;
  }
}

void Trainer::warn_of_lonely_ranks() const {
  const Place place = place_in_job();
  // A program that also does other work may well train on one rank of many.
  if (!errors_end_job() || communicator_ != nullptr || place.ranks == 1 || place.rank != 0) return;
  log_warning(
      "this job has {} ranks, and each trains a separate model: give the optimizer a communicator, "
      "create_multi_node_optimizer(std::move(optimizer), communicator), or start one process",
      place.ranks);
}

void Trainer::save_after_error() noexcept {
  for (Attached* each : by_priority()) {
    try {
      each->extension->on_error(*this);
    } catch (const std::exception& error) {
      log_warning("{}: {}", each->name, error.what());
    }
  }
}

std::string Trainer::how_to_go_on() const {
  const std::string file = out_->name_of(last_saved_).string();
  return resume_flag_.empty() ? fmt::format("the {} is {}", kind_of(last_saved_), file)
                              : fmt::format("continue with {} {}", resume_flag_, file);
}

void Trainer::say_last_saved() const {
  if (!is_root()) return;
  const std::string file = out_->name_of(last_saved_).string();
  if (file.empty())
    set_last_words("; there is no snapshot yet");
  else if (resume_flag_.empty())
    set_last_words(fmt::format("; the last {} is {}", kind_of(last_saved_), file));
  else
    set_last_words(fmt::format("; continue from the last {} with {} {}", kind_of(last_saved_),
                               resume_flag_, file));
}

void Trainer::note_saved(const std::filesystem::path& path) {
  last_saved_ = path;
  say_last_saved();
}

void Trainer::note_result(const std::filesystem::path& file) {
  if (std::exchange(iteration_of_results_, updater_->iteration()) != updater_->iteration())
    results_.clear();
  if (std::ranges::find(results_, file) == results_.end()) results_.push_back(file);
}

bool Trainer::saves_by_checkpoint() const {
  return !has_checkpoint_failed_ && std::ranges::any_of(extensions_, [](const auto& each) {
    return each->extension->saves_at_stop();
  });
}

// The same on all ranks.
bool Trainer::is_asked_to_stop() const {
  if (const std::optional<bool> is_asked = updater_->asked_to_stop()) return *is_asked;
  if (communicator_ == nullptr || communicator_->size() == 1) return stop_requested();
  const Optimizer& optimizer = updater_->optimizer();
  const Communicator* const exchanging = optimizer.communicator();
  const bool exchanges = exchanging == nullptr || exchanging->exchanges_gradients();
  if (exchanging && exchanges && exchanging->size() == communicator_->size())
    return optimizer.step_exchange().asked_to_stop();
  // A step without messages gets none.
  if (!exchanges && !updater_->is_new_epoch()) return false;
  const Tensor asked = Tensor::full({}, stop_requested() ? 1 : 0, DType::int32);
  communicator_->allreduce(asked);
  return asked.item() != 0;
}

void Trainer::run_until_stop() {
  const std::vector<Attached*> extensions = by_priority();
  const StoppableScope stoppable;
  say_last_saved();
  started_at_ = seconds_now();
  for (Attached* each : extensions) each->extension->initialize(*this);
  const auto first_saving = std::find_if(extensions.begin(), extensions.end(),
                                         [](const Attached* each) { return each->priority < 0; });
  const auto run_triggered = [this](auto begin, auto end) {
    const PhaseScope extending(Phase::extension);
    for (; begin != end; ++begin) run_if_due(**begin);
  };
  if (std::exchange(is_resumed_, false)) run_what_follows_saves();
  bool is_over = stop_->is_over(*this);
  is_stopped_ = has_checkpoint_failed_ = false;
  while (!is_over && !is_stopped_) {
    observation_.clear();
    report_position(updater_->epoch() + 1, updater_->iteration() + 1);
    {
      const PhaseScope updating(Phase::computing);
      updater_->update(observation_);
    }
    run_triggered(extensions.begin(), first_saving);
    is_over = stop_->fires(*this);
    run_triggered(first_saving, extensions.end());
    is_stopped_ = failure_ || (!is_over && is_asked_to_stop());
  }
  updater_->flush();
  const std::optional<Error> unsaved = finalize_extensions();
  elapsed_before_ = elapsed_time();
  started_at_.reset();
  if (unsaved) {
    if (failure_ && is_root()) log_warning("{}", failure_->what());
    throw Error(*unsaved);
  }
  if (failure_) {
    const Error error = *std::exchange(failure_, std::nullopt);
    throw Error(error.kind(), fmt::format("{}; {}", error.what(), how_to_go_on()), error.scope());
  }
  if (is_stopped_)
    throw Stopped(fmt::format("stopped and saved after iteration {}; {}", updater_->iteration(),
                              how_to_go_on()));
}

void Trainer::run_if_due(Attached& attached) {
  if (!attached.trigger->fires(*this)) return;
  if (attached.extension->reads_model()) updater_->flush();
  attached.extension->run(*this);
  attached.has_run = true;
}

void Trainer::run_what_follows_saves() {
  if (updater_->iteration() == 0) return;
  const PhaseScope extending(Phase::extension);
  for (Attached* each : by_priority()) {
    const bool follows =
        each->priority < Extension::priority_snapshot || each->extension->repeats_after_resume();
    // Other triggers have a state, and must not be asked twice in an iteration.
    if (follows && each->trigger->times_fired(*this)) run_if_due(*each);
  }
}

std::optional<Error> Trainer::finalize_extensions() {
  std::optional<Error> of_checkpoint, of_others;
  const auto finalize = [&](Extension& extension) {
    try {
      extension.finalize(*this);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cannot_write) throw;
      const bool is_checkpoint = extension.saves_at_stop();
      has_checkpoint_failed_ = has_checkpoint_failed_ || is_checkpoint;
      std::optional<Error>& first = is_checkpoint ? of_checkpoint : of_others;
      if (!first) first = Error(kind_at_end(error), error.what(), error.scope());
    }
  };
  const std::vector<Attached*> extensions = by_priority();
  // While a checkpoint is written the disk may be full, and have room again when it is complete.
  for (const Attached* each : extensions) each->extension->finish_background_work();
  const auto first_after_saving = std::ranges::find_if(extensions, [](const Attached* each) {
    return each->priority < Extension::priority_snapshot;
  });
  for (auto each = extensions.begin(); each != first_after_saving; ++each)
    finalize(*(*each)->extension);
  if (is_stopped_ && !saves_by_checkpoint()) {
    Snapshot own;
    Snapshot* const attached = numbered_snapshot(*this);
    Snapshot& snapshot = attached ? *attached : own;
    snapshot.save_at_end();
    finalize(snapshot);
    if (of_checkpoint && !of_others) {
      if (is_root()) log_warning("{}; there is a snapshot instead", of_checkpoint->what());
      of_checkpoint.reset();
    }
  }
  for (auto each = first_after_saving; each != extensions.end(); ++each)
    finalize(*(*each)->extension);
  return of_checkpoint ? of_checkpoint : of_others;
}

bool Trainer::may_yet_observe(const std::string& key) const {
  return std::ranges::any_of(extensions_, [&](const auto& each) {
    return each->priority >= 0 && each->extension->may_observe(key, each->name, each->has_run);
  });
}

void Trainer::announce_report(const Observation& all) {
  for (const auto& each : extensions_) each->extension->before_report(*this, all);
}

void Trainer::announce_own_report() {
  for (const auto& each : extensions_) each->extension->before_own_report(*this);
}

void Trainer::announce_save() {
  updater_->flush();
  for (const auto& each : extensions_) each->extension->before_save(*this);
}

double Trainer::elapsed_time() const {
  return elapsed_before_ + (started_at_ ? seconds_now() - *started_at_ : 0);
}

void Trainer::serialize(const Serializer& serializer) {
  is_resumed_ = is_resumed_ || serializer.is_loading();
  updater_->serialize(serializer["updater"]);
  // An extension without state in the snapshot is stateless or new in this run.
  const auto has = [&](const std::string& part, const std::string& name) {
    return !serializer.is_loading() || serializer[part].contains(name);
  };
  for (const auto& each : extensions_) {
    if (has("extensions", each->name))
      each->extension->serialize(serializer["extensions"][each->name]);
    else
      each->extension->join_late(*this, each->trigger->times_fired(*this));
    if (has("extension_triggers", each->name))
      each->trigger->serialize(serializer["extension_triggers"][each->name]);
  }
  if (!serializer.is_loading() || serializer.contains("stop_trigger"))
    stop_->serialize(serializer["stop_trigger"]);
  double elapsed = elapsed_time();
  serialize_seconds(serializer, "_snapshot_elapsed_time", elapsed);
  if (serializer.is_loading()) elapsed_before_ = elapsed;
}

}  // namespace tasuki
