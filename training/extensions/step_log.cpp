#include "training/extensions/step_log.hpp"

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

StepFormat checked_format(const std::filesystem::path& file) {
  if (const auto format = step_format_of(file)) return *format;
  fail_everywhere(ErrorKind::usage, "{}: expected a name that ends in .csv or .jsonl",
                  file.string());
}

bool has_contents(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(status_of(file)) && !std::filesystem::is_empty(file, ignored);
}

}  // namespace

StepLog::StepLog(const std::filesystem::path& file, bool may_replace)
    : file_(present_folder() / file), format_(checked_format(file)), may_replace_(may_replace) {}

void StepLog::open(Trainer& trainer) {
  const std::int64_t iteration = trainer.updater().iteration();
  if (iteration == 0 && !may_replace_ && !table_ && has_contents(file_))
    fail(ErrorKind::cannot_write,
         "{} is there already; remove it, give another name, or replace it with --overwrite",
         file_.string());
  make_output_folder(file_.parent_path());
  table_.emplace(file_, format_, iteration, saved_);
}

void StepLog::note_save() {
  table_->sync();
  saved_ = table_->written();
}

void StepLog::finalize(Trainer& trainer) {
  StepWriter::finalize(trainer);
  if (table_) saved_ = table_->written();
}

void StepLog::serialize(const Serializer& serializer) {
  serialize_count(serializer, "iteration", saved_.iteration);
  std::string hash = hash_digits(saved_.hash);
  serializer("row", hash);
  const auto parsed = parse_hash(hash);
  if (!parsed)
    fail_everywhere(ErrorKind::data,
                    "the snapshot's row of --log-steps: expected a hash, found '{}'",
                    quoted_input(hash));
  saved_.hash = *parsed;
}

}  // namespace tasuki
