#include "training/checkpoints/generation_save.hpp"

#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "training/checkpoints/retention.hpp"

namespace tasuki {

void GenerationSave::run() {
  Stopwatch watch;
  try {
    write();
  } catch (const Error& error) {
    share = {};
    if (error.kind() == ErrorKind::cannot_write) failure = error.what();
    throw;
  }
  share = {};
  seconds = watch.lap();
}

void GenerationSave::write() {
  std::optional<GenerationWriter> writer(std::in_place, outline, writers);
  try {
    writer->write(share);
  } catch (const Error& full) {
    if (!is_of_full_disk(full)) throw;
    try {
      removed = make_room(outline.out, outline.iteration, writers, writer->first_on_disk());
    } catch (const Error&) {  // the disk's
      throw full;
    }
    if (removed.empty()) throw;
    if (writer->is_complete())
      writer->name_latest();
    else
      writer.emplace(outline, writers).write(share);
  }
  if (writer->is_first_on_disk()) {
    // Once before the best one is named, which may take the room.
    remove_old_generations(outline.out, writer->folder(), n_retains);
    if (is_best) {
      write_best(outline.out, writer->folder());
      remove_old_generations(outline.out, writer->folder(), n_retains);
    }
  }
  first_on_disk = writer->first_on_disk();
  path = writer->folder();
}

}  // namespace tasuki
