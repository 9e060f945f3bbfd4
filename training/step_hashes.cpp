#include "training/step_hashes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "core/error.hpp"
#include "core/growing_file.hpp"
#include "core/hash.hpp"
#include "core/json.hpp"
#include "core/line_reader.hpp"
#include "core/long_call.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view first_line =
    R"({"hashes of":"the bytes of each array","by":"XXH3, 64 bits, seed 0","version":1})";
constexpr std::string_view begin_of_step = "{\"iteration\":", end_of_run = ",\"end\":true}";

// The iteration with which a line begins; nothing for another line.
std::optional<std::int64_t> iteration_in(std::string_view line) {
  if (!line.starts_with(begin_of_step) || !line.ends_with('}')) return std::nullopt;
  line.remove_prefix(begin_of_step.size());
  std::int64_t iteration = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), iteration);
  const bool has_number = error == std::errc() && iteration > 0;
  return has_number && *end == ',' ? std::optional(iteration) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& place, std::int64_t number, std::string_view expected,
                         std::string_view found) {
  fail(ErrorKind::data,
       "{}, line {}: expected {}, found '{}'; --hash-every goes on only in a file that it has "
       "written: move this one away",
       place, number, expected, quoted_input(found));
}

[[noreturn]] void refuse_line(const std::string& place, const char* expected) {
  fail(ErrorKind::data, "{}: expected {}, found something else", place, expected);
}

std::uint64_t hash_in(const nlohmann::ordered_json& value, const std::string& place) {
  const auto hash =
      value.is_string() ? parse_hash(value.get_ref<const std::string&>()) : std::nullopt;
  if (!hash) refuse_line(place, "hashes of 16 hexadecimal digits");
  return *hash;
}

}  // namespace

std::uint64_t StepHashes::Group::hash() const {
  RunningHash all;
  for (const auto& [path, hash] : arrays) all.add(std::as_bytes(std::span(&hash, 1)));
  return all.value();
}

std::string StepHashes::line() const {
  nlohmann::ordered_json object = {{"iteration", iteration}, {"loss", nullptr}};
  if (loss && std::isfinite(*loss)) object["loss"] = *loss;
  nlohmann::ordered_json& hashes = object["hashes"] = nlohmann::ordered_json::object();
  if (loss_hash) hashes["loss"] = hash_digits(*loss_hash);
  for (const Group& group : groups) hashes[group.name] = hash_digits(group.hash());
  for (const Group& group : groups) {
    nlohmann::ordered_json& arrays = object[group.name] = nlohmann::ordered_json::object();
    for (const auto& [path, hash] : group.arrays) arrays[path] = hash_digits(hash);
  }
  if (is_of_end) object["end"] = true;
  return json_text(object);
}

StepHashes StepHashes::parse(std::string_view line, const std::string& place) {
  const nlohmann::ordered_json object = parse_ordered_json(line, place);
  StepHashes step;
  const auto iteration = object.is_object() ? object.find("iteration") : object.end();
  if (iteration == object.end() || !iteration->is_number_integer() ||
      iteration->get<std::int64_t>() <= 0)
    refuse_line(place, "an object with an iteration");
  step.iteration = iteration->get<std::int64_t>();
  const auto hashes = object.find("hashes");
  if (hashes == object.end() || !hashes->is_object()) refuse_line(place, "an object \"hashes\"");
  if (const auto loss = object.find("loss"); loss != object.end() && loss->is_number())
    step.loss = loss->get<double>();
  for (const auto& [name, value] : hashes->items()) {
    const std::uint64_t hash = hash_in(value, place);
    if (name == "loss") {
      step.loss_hash = hash;
      continue;
    }
    if (name == "iteration" || name == "hashes" || name == "end")
      refuse_line(place, "hashes of groups of arrays");
    const auto arrays = object.find(name);
    if (arrays == object.end() || !arrays->is_object())
      refuse_line(place, "hashes of the arrays of each group");
    Group group{name, {}};
    for (const auto& [path, of_array] : arrays->items())
      group.arrays.emplace_back(path, hash_in(of_array, place));
    if (group.hash() != hash) refuse_line(place, "a group's hash to be that of its arrays");
    step.groups.push_back(std::move(group));
  }
  const auto end = object.find("end");
  step.is_of_end = end != object.end() && *end == true;
  return step;
}

KeptHashes hashes_up_to(std::int64_t iteration, bool is_over, LineReader& lines,
                        const std::string& place, const HashMark& mark) {
  KeptHashes kept;
  bool has_lines = false, has_mark = mark.iteration == 0;
  std::int64_t number = 0, before = 0;
  while (const auto line = lines.next()) {
    const bool is_first = ++number == 1;
    // Written in part by a process that was killed.
    if (!line->is_whole && (!is_first || first_line.starts_with(line->text))) break;
    if (is_first) {
      if (line->text != first_line) refuse(place, 1, fmt::format("'{}'", first_line), line->text);
    } else {
      has_lines = true;
      const auto found = iteration_in(line->text);
      if (!found || *found <= before)
        refuse(place, number, fmt::format("the hashes of an iteration after {}", before),
               line->text);
      before = *found;
      if (before > iteration) break;
      const HashMark here{before, hash_text(line->text)};
      has_mark = has_mark || here == mark;
      if (line->text.ends_with(end_of_run) && !is_over) continue;  // it is the last one
      kept.last = here;
    }
    kept.bytes += std::ssize(line->text) + 1;
  }
  if (has_lines && !has_mark)
    fail(ErrorKind::data,
         "{}: it lacks the line of iteration {} that this run had written when it was saved, so it "
         "is another run's or was cut; move it away",
         place, mark.iteration);
  return kept;
}

HashReader::HashReader(const fs::path& file)
    : place_(file.string()),
      lines_(std::make_unique<LineReader>(open_own_file(file, OwnFile::read), file)) {
  const auto line = lines_->next();
  number_ = 1;
  if (line && (line->text == first_line || (!line->is_whole && first_line.starts_with(line->text))))
    return;
  fail(ErrorKind::data, "{}: expected a file that --hash-every has written, found '{}'", place_,
       line ? quoted_input(line->text) : "");
}

HashReader::~HashReader() = default;

std::optional<StepHashes> HashReader::next() {
  const auto line = lines_->next();
  if (!line || !line->is_whole) return std::nullopt;
  const std::string place = fmt::format("{}, line {}", place_, ++number_);
  StepHashes step = StepHashes::parse(line->text, place);
  if (step.iteration <= before_)
    fail(ErrorKind::data, "{}: expected an iteration after {}, found {}", place, before_,
         step.iteration);
  before_ = step.iteration;
  return step;
}

bool is_hash_file(const fs::path& file) {
  try {
    LineReader lines(open_own_file(file, OwnFile::read), file);
    const auto line = lines.next();
    return line && line->text == first_line;
  } catch (const Error&) {  // something else has this name
    return false;
  }
}

HashFile::HashFile(fs::path file, std::int64_t iteration, bool is_over, const HashMark& mark) {
  KeptHashes kept;
  if (std::error_code ignored; fs::exists(fs::symlink_status(file, ignored))) {
    const LongCall reading;
    LineReader lines(open_own_file(file, OwnFile::read), file);
    kept = hashes_up_to(iteration, is_over, lines, file.string(), mark);
  }
  file_ = std::make_unique<GrowingFile>(std::move(file), OwnFile::update);
  file_->cut(kept.bytes);
  if (kept.bytes == 0) file_->append(std::string(first_line) + '\n');
  added_ = written_ = kept.last;
}

HashFile::~HashFile() = default;
HashFile::HashFile(HashFile&&) noexcept = default;
HashFile& HashFile::operator=(HashFile&&) noexcept = default;

void HashFile::add(const StepHashes& step) {
  const std::string line = step.line();
  added_ = {step.iteration, hash_text(line)};
  file_->append(line + '\n');
}

std::int64_t HashFile::waiting() const {
  return std::ssize(file_->waiting());
}

void HashFile::flush(const fs::path& file) {
  if (file != file_->path() || !file_->is_there()) {
    GrowingFile made(file, OwnFile::make);
    const std::string& waiting = file_->waiting();
    if (!waiting.starts_with(first_line)) made.append(std::string(first_line) + '\n');
    made.append(waiting);
    written_ = {};
    if (waiting.empty()) added_ = {};
    *file_ = std::move(made);
  }
  file_->flush();
  written_ = added_;
}

void HashFile::sync() const {
  file_->sync();
}

}  // namespace tasuki
