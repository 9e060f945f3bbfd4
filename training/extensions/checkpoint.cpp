#include "training/extensions/checkpoint.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/activity.hpp"
#include "core/background_thread.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/long_call.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "saving/checkpoint_writer.hpp"
#include "saving/output_layout.hpp"
#include "tensor/out_of_memory.hpp"
#include "training/extensions/best_checkpoint.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

// Whether states are on several ranks, each of which can write those that it has.
bool divides_states(const Trainer& trainer) {
  return trainer.updater().has_states_by_group() ||
         std::ranges::any_of(trainer.updater().optimizers(), [](const NamedOptimizer& each) {
           return each.optimizer->states().are_sharded();
         });
}

}  // namespace

// A checkpoint that is being written. What the other thread sets is there before `writing_` is
// ready.
struct Checkpoint::Task : CheckpointTask {
  BestCheckpoint::Record best_before{};
  bool is_noted = false;
  double seconds_of_pause = 0;
};

Checkpoint::Checkpoint(Settings settings, std::unique_ptr<Trigger> due)
    : settings_(std::move(settings)), due_(std::move(due)) {
  if (settings_.n_retains < 1)
    fail_everywhere(ErrorKind::usage, "at least one checkpoint has to remain, not {}",
                    settings_.n_retains);
  if (!settings_.keep_best.empty()) best_ = std::make_unique<BestCheckpoint>(settings_.keep_best);
}

Checkpoint::~Checkpoint() {
  if (!background_ || !task_ || !writing_.valid()) return;
  const auto limit = writers_ ? std::chrono::milliseconds(0) : settings_.patience;
  if (writing_.wait_for(limit) != std::future_status::ready) abandon_writing();
}

SavingRanks Checkpoint::ranks_of(const Trainer& trainer) const {
  return {trainer.communicator(), settings_.replicas.get()};
}

bool Checkpoint::writes(const Trainer& trainer) const {
  return ranks_of(trainer).is_first() || (!settings_.replicas && divides_states(trainer));
}

bool Checkpoint::is_saved(const Trainer& trainer, Communicator* all) const {
  const fs::path& from = trainer.last_saved();
  if (complete_iteration_ == 0 || iteration_of(from) != complete_iteration_) return false;
  const auto is_here = [&] {
    std::error_code ignored;
    const bool found = fs::equivalent(trainer.out() / name_in_folder(from), from, ignored);
    return found ? Bytes(1) : Bytes();
  };
  return !(all ? run_on_root(*all, 0, is_here) : is_here()).empty();
}

void Checkpoint::initialize(Trainer& trainer) {
  complete_iteration_ = trainer.updater().iteration();
  Communicator* const all = ranks_of(trainer).whole;
  // A run that makes no step has nothing to save.
  if (is_saved(trainer, all)) saved_iteration_ = complete_iteration_;
  if (all != nullptr && (settings_.replicas || divides_states(trainer)))
    writers_ = all->split(writes(trainer) ? 0 : 1, all->rank());
  check_divided_weights(trainer);
  if (trainer.is_root()) record_start(trainer.out(), trainer.last_saved());
  if (best_) best_->find(trainer, all, ranks_of(trainer).is_first());
}

// No rank has room for weights that nodes divide, so they are saved in pieces.
void Checkpoint::check_divided_weights(Trainer& trainer) {
  const auto divides = [](const NamedOptimizer& each) { return each.optimizer->divides_weights(); };
  if (!writers_ || !std::ranges::any_of(trainer.updater().optimizers(), divides)) return;
  trainer.restore_output_everywhere();
  if (!all_see_one_folder(trainer))
    fail_everywhere(
        ErrorKind::config,
        "--shard weights: each rank saves its part of the weights into {}, and the ranks' "
        "machines see different folders there; choose an --out that all of them see",
        trainer.out().string());
}

void Checkpoint::run(Trainer& trainer) {
  note_if_written(trainer);
  // Should the best one not have been written, the value is compared with those before it.
  if (task_ && task_->is_best && trainer.updater().is_new_epoch()) finish_or_warn(trainer);
  const auto before = best_ ? best_->record() : BestCheckpoint::Record();
  const bool is_better = best_ && best_->look(trainer);
  const bool is_due = due_->fires(trainer);
  if (is_due || is_better) {
    finish_or_warn(trainer);
    warn_of_failure(trainer, [&] {
      begin(trainer);
      task_->best_before = before;
      task_->is_best = is_better;
      if (is_better) best_->set_id(task_->info.id);
      save(trainer, settings_.in_background && !is_at_limit(trainer));
    });
  }
  if (is_at_limit(trainer)) finish_or_warn(trainer);
}

bool Checkpoint::is_at_limit(const Trainer& trainer) const {
  const std::int64_t done = trainer.updater().iteration() - complete_iteration_;
  return settings_.max_lost_iterations && done >= *settings_.max_lost_iterations;
}

void Checkpoint::finalize(Trainer& trainer) {
  const std::int64_t iteration = trainer.updater().iteration();
  if (task_ && task_->info.iteration != iteration) finish_or_warn(trainer);
  try {
    if (saved_iteration_ != iteration) {
      begin(trainer);
      save(trainer, false);
    }
    finish(trainer);
  } catch (const Error&) {
    give_up(trainer);
    throw;
  }
}

void Checkpoint::on_error(Trainer& trainer) {
  if (!task_ || !writing_.valid() || writers_) return;
  {
    const LongCall waiting;
    if (writing_.wait_for(settings_.patience) != std::future_status::ready) {
      log_warning("the checkpoint of iteration {} is not written yet; ending without it",
                  task_->info.iteration);
      return abandon_writing();
    }
  }
  note_if_written(trainer);
}

void Checkpoint::abandon_writing() {
  // Its thread, which may never return, has all that it uses.
  static_cast<void>(background_.release());  // NOLINT(bugprone-unused-return-value)
  task_.reset();
  writing_ = {};
}

void Checkpoint::serialize(const Serializer& serializer) {
  const auto has = [&](const char* name) {
    return !serializer.is_loading() || serializer.contains(name);
  };
  if (has("due")) due_->serialize(serializer["due"]);
  if (best_ && has("best")) best_->serialize(serializer["best"]);
}

void Checkpoint::begin(const Trainer& trainer) {
  task_ = std::make_shared<Task>();
  std::string& id = task_->info.id;
  task_->info.iteration = saved_iteration_ = trainer.updater().iteration();
  id = random_id();
  // States of several replica sets keep it.
  if (best_ && settings_.replicas)
    id = bytes_to_text(bcast_bytes(settings_.replicas->whole(), text_to_bytes(id)));
}

bool Checkpoint::all_see_one_folder(const Trainer& trainer) {
  if (probed_ != trainer.out()) {
    const Writers writers(*writers_);
    const fs::path folder = trainer.out() / checkpoints_name;
    writers.on_all([&] {
      make_output_folder(folder);
      return "";
    });
    first_on_disk_ = writers.first_on_disk(folder);
    probed_ = trainer.out();
  }
  return std::ranges::all_of(first_on_disk_, [](int first) { return first == 0; });
}

void Checkpoint::save(Trainer& trainer, bool in_background) {
  const PhaseScope saving(Phase::saving);
  Stopwatch pause;
  trainer.restore_output_everywhere();
  trainer.announce_save();
  const bool is_divided = settings_.replicas != nullptr;
  const bool in_pieces = !is_divided && writers_ && all_see_one_folder(trainer);
  CheckpointArrays& arrays = task_->arrays;
  if (is_divided) arrays.part = settings_.replicas->suffix();
  trainer.serialize(Serializer::saver(arrays.state, ranks_of(trainer).members,
                                      in_pieces ? &arrays.pieces : nullptr));
  if (!writes(trainer)) return;
  in_background = in_background && (!writers_ || writers_->supports(Background::thread));
  try {
    if (in_background) detach(arrays);
  } catch (const OutOfMemory&) {
    in_background = false;
  }
  CheckpointInfo& info = task_->info;
  info.out = trainer.out();
  info.epoch = trainer.updater().epoch();
  if (is_divided) info.parts = writers_->size();
  if (probed_ == trainer.out()) info.first_on_disk = first_on_disk_;
  if (writers_) task_->writers = Writers(*writers_);
  task_->n_retains = settings_.n_retains;
  task_->seconds_of_pause = pause.lap();
  writing_ = start([task = task_, communicator = writers_] { task->run(); }, in_background);
}

std::future<void> Checkpoint::start(std::function<void()> work, bool in_background) {
  try {
    if (in_background && !background_)
      background_ = std::make_unique<BackgroundThread>(BackgroundThread::Progress::does_not_count);
  } catch (const std::system_error&) {  // no more threads
    in_background = false;
  }
  if (in_background) return background_->start(std::move(work));
  std::packaged_task<void()> here(std::move(work));
  here();
  return here.get_future();
}

void Checkpoint::finish_background_work() {
  if (!writing_.valid()) return;
  const PhaseScope saving(Phase::saving);
  const LongCall waiting;
  writing_.wait();
}

void Checkpoint::finish(Trainer& trainer) {
  if (!task_) return;
  const PhaseScope saving(Phase::saving);
  const auto wait = [this] {
    finish_background_work();
    if (writing_.valid()) writing_.get();
  };
  Communicator* const all = ranks_of(trainer).whole;
  if (all) {
    run_on_all(*all, wait);
    task_->path = bytes_to_text(bcast_bytes(*all, text_to_bytes(task_->path.string())));
  } else {
    wait();
  }
  complete_iteration_ = task_->info.iteration;
  first_on_disk_ = task_->first_on_disk;
  probed_ = trainer.out();
  trainer.note_saved(task_->path);
  note_written(trainer);
  task_.reset();
}

void Checkpoint::finish_or_warn(Trainer& trainer) {
  warn_of_failure(trainer, [&] { finish(trainer); });
}

void Checkpoint::warn_of_failure(const Trainer& trainer, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const bool is_said = task_ && task_->is_noted;
    give_up(trainer);
    if (error.kind() != ErrorKind::cannot_write) throw;
    if (trainer.is_root() && !is_said) log_warning("{}; training continues", error.what());
  }
}

void Checkpoint::give_up(const Trainer& trainer) {
  if (!task_) return;
  note_removed(trainer);
  if (task_->is_best) best_->set_record(task_->best_before);
  saved_iteration_ = -1;
  probed_.clear();
  task_.reset();
  writing_ = {};
}

void Checkpoint::note_if_written(Trainer& trainer) {
  if (task_ && writing_.valid() &&
      writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    note_written(trainer);
}

void Checkpoint::note_written(Trainer& trainer) {
  if (!trainer.is_root() || std::exchange(task_->is_noted, true)) return;
  note_removed(trainer);
  if (!task_->failure.empty()) {
    log_warning("{}; training continues", task_->failure);
  } else if (!task_->path.empty()) {
    trainer.note_saved(task_->path);
    log_verbose("saved {}: training paused for {:.3f} s, writing took {:.3f} s",
                task_->path.string(), task_->seconds_of_pause, task_->seconds);
  }
}

void Checkpoint::note_removed(const Trainer& trainer) {
  const std::vector<std::string> removed = std::exchange(task_->removed, {});
  if (!trainer.is_root() || removed.empty()) return;
  const std::string text = fmt::format(
      "the disk has no room for the checkpoint of iteration {} beside the older ones; "
      "removed {} from {}",
      task_->info.iteration, join(removed, ", "), (task_->info.out / checkpoints_name).string());
  if (std::exchange(has_said_removed_, true)) return log_verbose("{}", text);
  log_warning("{}, and will do so again; make room for {} checkpoints, or keep fewer", text,
              settings_.n_retains + (best_ ? 2 : 1));
}

}  // namespace tasuki
