#include "program/data/data_check.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "communicator/number_bytes.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "dataset/images/image_check.hpp"
#include "dataset/views.hpp"

namespace tasuki::program {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_listed = 20, most_mentioned = 3;

// All files of a split, on rank 0; none if it has no image files.
std::vector<ImageFile> files_of(const SplitData& split) {
  if (split.stream) return split.stream->list().files({0, split.header.count});
  if (split.dataset) return {};
  const auto source = split.open();
  const auto files = source->image_files();
  return {files.begin(), files.end()};
}

// The part that this rank decodes, and the number of its first file. Collective.
std::pair<std::vector<ImageFile>, std::int64_t> own_files(const SplitData& split,
                                                          Communicator& communicator) {
  if (split.stream) {
    const Range own = part_of(split.header.count, communicator.size(), communicator.rank());
    return {split.stream->list().files(own), own.begin};
  }
  if (split.dataset) return {};
  const Bytes sent = run_on_root(communicator, 0, [&] {
    std::string paths;
    for (const ImageFile& file : files_of(split)) paths += file.path.string() + '\0';
    return text_to_bytes(paths);
  });
  const auto& hosts = communicator.topology().host_of;
  const auto rank = static_cast<std::size_t>(communicator.rank());
  if (hosts[rank] != hosts[0]) return {};
  const std::string_view paths = bytes_to_text(sent);
  const auto before = hosts.begin() + communicator.rank();
  const Range own = part_of(std::ranges::count(paths, '\0'), std::ranges::count(hosts, hosts[0]),
                            std::count(hosts.begin(), before, hosts[0]));
  std::vector<ImageFile> files;
  std::size_t begin = 0;
  for (std::int64_t i = 0; i < own.end; ++i) {
    const std::size_t end = paths.find('\0', begin);
    if (i >= own.begin) files.push_back({paths.substr(begin, end - begin)});
    begin = end + 1;
  }
  return {std::move(files), own.begin};
}

Bytes encode(const ImageFindings& findings) {
  std::vector<std::int64_t> numbers;
  for (const auto* const list : {&findings.unreadable, &findings.without_end}) {
    numbers.push_back(std::ssize(*list));
    for (const ImageProblem& each : *list) {
      numbers.push_back(each.number);
      append_text(numbers, each.name);
      append_text(numbers, each.what);
    }
  }
  return encode_numbers(numbers);
}

void append_decoded(ImageFindings& findings, const Bytes& bytes) {
  const std::vector<std::int64_t> numbers = decode_numbers(bytes);
  NumberReader reader(numbers);
  for (auto* const list : {&findings.unreadable, &findings.without_end})
    for (std::int64_t left = reader.next(); left > 0; --left) {
      const std::int64_t number = reader.next();
      std::string name = reader.text();
      list->push_back({number, std::move(name), reader.text()});
    }
}

// The findings of all ranks about all files, on every rank. Collective.
ImageFindings decode_on_ranks(const SplitData& split, Communicator& communicator, int threads) {
  const PhaseScope looking(Phase::reading_data);
  const auto [files, first] = own_files(split, communicator);
  const auto& hosts = communicator.topology().host_of;
  const std::string& host = hosts[static_cast<std::size_t>(communicator.rank())];
  const bool are_on_several = std::ranges::count(hosts, host) < std::ssize(hosts);
  ImageFindings own;
  run_on_all(communicator, [&, &files = files, first = first] {
    own = decode_images(files, threads);
    for (auto* const list : {&own.unreadable, &own.without_end})
      for (ImageProblem& each : *list) {
        each.number += first;
        if (split.stream && are_on_several) each.what += " on " + host;
      }
  });
  ImageFindings all;
  for (const Bytes& each : allgather_bytes(communicator, encode(own))) append_decoded(all, each);
  return all;
}

void warn_of_missing_ends(const ImageFindings& findings, const Communicator& communicator) {
  const std::size_t count = findings.without_end.size();
  if (count == 0 || communicator.rank() != 0) return;
  std::string names;
  for (const ImageProblem& each :
       std::span(findings.without_end).first(std::min(count, most_mentioned)))
    names += (names.empty() ? "" : ", ") + each.name;
  log_warning("{} image {} the end, but no pixels, and {} used: {}{}", count,
              count == 1 ? "file lacks" : "files lack", count == 1 ? "is" : "are", names,
              count > most_mentioned ? ", ..." : "");
}

std::string name_below(const fs::path& path, const fs::path& base) {
  const fs::path relative = path.lexically_relative(base);
  return relative.empty() ? path.string() : relative.string();
}

struct Chosen {
  std::vector<std::int64_t> numbers;  // ascending
  std::vector<std::string> names;
};

// The files that `is_left_out`, which rank 0 knows, on all ranks. Collective.
Chosen choose(const SplitData& split, const fs::path& base,
              const std::function<bool(std::int64_t number, const std::string& name)>& is_left_out,
              Communicator& communicator) {
  const Bytes sent = run_on_root(communicator, 0, [&] {
    const std::vector<ImageFile> files = files_of(split);
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string name = name_below(files[i].path, base);
      const auto number = static_cast<std::int64_t>(i);
      if (!is_left_out(number, name)) continue;
      numbers.push_back(number);
      append_text(numbers, name);
    }
    return encode_numbers(numbers);
  });
  const std::vector<std::int64_t> numbers = decode_numbers(sent);
  Chosen chosen;
  for (NumberReader reader(numbers); !reader.rest().empty();) {
    chosen.numbers.push_back(reader.next());
    chosen.names.push_back(reader.text());
  }
  return chosen;
}

void remove(SplitData& split, const std::vector<std::int64_t>& numbers) {
  split.header.count -= std::ssize(numbers);
  if (split.stream) {
    split.stream = split.stream->without(numbers);
    std::vector<std::int64_t> rest(static_cast<std::size_t>(split.header.count));
    std::iota(rest.begin(), rest.end(), 0);
    split.dataset = split.header.count == split.stream->size()
                        ? std::shared_ptr<const Dataset>(split.stream)
                        : subset_of(split.stream, std::move(rest));
  } else if (split.open) {
    split.open = [open = split.open, numbers] {
      auto source = open();
      source->leave_out(numbers);
      return source;
    };
  }
}

// A block's labels, which training would meet in a batch.
template <class Label>
void check_labels_in(const RecordBlock& block, std::size_t number, const Field& field,
                     std::int64_t example) {
  const std::span<const std::byte> bytes = block.at(number, example - block.first);
  for (std::size_t at = 0; at + sizeof(Label) <= bytes.size(); at += sizeof(Label)) {
    Label label;
    std::memcpy(&label, bytes.data() + at, sizeof(Label));
    check_label_in(field, label, example);
  }
}

void read_all(DataSource& source) {
  const std::vector<Field>& fields = source.header().fields;
  for (RecordBlock block; source.read_block(block);) {
    report_progress();
    for (std::size_t number = 0; number < fields.size(); ++number)
      for (std::int64_t i = block.first; i < block.first + block.count; ++i) {
        if (fields[number].stored == DType::int32)
          check_labels_in<std::int32_t>(block, number, fields[number], i);
        else if (fields[number].stored == DType::int64)
          check_labels_in<std::int64_t>(block, number, fields[number], i);
      }
  }
}

void read_all(const Dataset& dataset, Range examples) {
  constexpr std::int64_t at_once = 256;
  std::vector<std::int64_t> numbers;
  for (std::int64_t begin = examples.begin; begin < examples.end; begin += at_once) {
    numbers.resize(static_cast<std::size_t>(std::min(at_once, examples.end - begin)));
    std::iota(numbers.begin(), numbers.end(), begin);
    read_batch(dataset, numbers);
  }
}

}  // namespace

std::int64_t key_of_left_out(const std::string& split, const std::string& name) {
  return static_cast<std::int64_t>(hash_text(fmt::format("{}:{}", split, name)));
}

void leave_out_unreadable(SplitData& split, const std::string& split_name, const fs::path& base,
                          const std::optional<std::vector<std::int64_t>>& known,
                          Communicator& communicator, int threads) {
  ImageFindings findings;
  const std::int64_t before = split.header.count;
  const auto is_left_out = [&](std::int64_t number, const std::string& name) {
    return known
               ? std::ranges::binary_search(*known, key_of_left_out(split_name, name))
               : std::ranges::binary_search(findings.unreadable, number, {}, &ImageProblem::number);
  };
  if (!known) findings = decode_on_ranks(split, communicator, threads);
  const Chosen chosen = choose(split, base, is_left_out, communicator);
  remove(split, chosen.numbers);
  split.left_out = chosen.names;
  split.is_decoded = !known;
  if (communicator.rank() != 0) return;
  if (known && !chosen.names.empty())
    log_warning("{} of {} {} images are left out, as in the run that is resumed",
                chosen.names.size(), before, split_name);
  else if (!findings.unreadable.empty())
    log_warning("{} of {} {} images cannot be read and are left out: {}",
                findings.unreadable.size(), before, split_name,
                text_of(findings.unreadable, most_listed));
  warn_of_missing_ends(findings, communicator);
}

namespace {

// What was found in the image files of a split; other examples are read, and throw. Collective.
ImageFindings check_split(const SplitData& split, Communicator& communicator, int threads) {
  if (split.is_decoded) return {};
  if (std::ranges::any_of(split.header.fields, &Field::is_image_file) &&
      (split.stream || !split.dataset))
    return decode_on_ranks(split, communicator, threads);
  if (split.dataset)
    run_on_all(communicator, [&] {
      read_all(*split.dataset,
               part_of(split.header.count, communicator.size(), communicator.rank()));
    });
  else
    run_on_root(communicator, 0, [&] {
      read_all(*split.open());
      return Bytes{};
    });
  return {};
}

}  // namespace

void check_all_examples(std::span<SplitData* const> splits, Communicator& communicator,
                        int threads) {
  const PhaseScope looking(Phase::reading_data);
  ImageFindings findings;
  std::int64_t files = 0;
  for (const SplitData* const split : splits) {
    ImageFindings of_split = check_split(*split, communicator, threads);
    files += split->header.count;
    std::ranges::move(of_split.unreadable, std::back_inserter(findings.unreadable));
    std::ranges::move(of_split.without_end, std::back_inserter(findings.without_end));
  }
  warn_of_missing_ends(findings, communicator);
  const std::size_t bad = findings.unreadable.size();
  if (bad == 0) return;
  if (bad > 1 && communicator.rank() == 0) {
    log_warning("{} of {} files cannot be read:", bad, files);
    for (const ImageProblem& each : findings.unreadable)
      log_warning("{} ({})", each.name, each.what);
  }
  fail_everywhere(ErrorKind::data,
                  "{} of {} files cannot be read as JPEG or PNG images: {}; get them again, remove "
                  "them, or give --skip-damaged",
                  bad, files, text_of(findings.unreadable, 1));
}

}  // namespace tasuki::program
