#include "dataset/images/image_list.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "communicator/number_bytes.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/activity.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "dataset/files/text_file.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

ImageList list_folder(const fs::path& folder, DataSplit split,
                      const std::vector<std::string>& classes) {
  const ImageFolderList found = list_image_folder(folder, split, classes);
  if (!found.left_out.empty()) log_warning("{}", found.left_out);
  ImageList list(folder);
  for (const ImageFile& file : found.files)
    list.append(file.path.lexically_relative(folder).string(), file.label);
  return list;
}

// Labels are below `classes`, if that is given.
ImageList read_list(const fs::path& file, const fs::path& root, std::int64_t classes) {
  constexpr std::int64_t most_classes = 1 << 20;  // far more than any data set has
  ImageList list(root);
  TextFile lines(file);
  for (std::string_view line; lines.next(line);) {
    const std::size_t end = line.find_last_not_of(" \t") + 1;
    const std::size_t label = line.substr(0, end).find_last_of(" \t") + 1;
    const std::size_t begin = line.find_first_not_of(" \t");
    if (label <= begin)
      fail(ErrorKind::data, "{}: expected the name of an image and its label, found '{}'",
           lines.place(), quoted_input(line.substr(begin, end - begin)));
    const std::string_view name =
        line.substr(begin, line.find_last_not_of(" \t", label - 1) + 1 - begin);
    list.append(
        name, static_cast<std::int32_t>(parse_integer(line.substr(label, end - label), 0,
                                                      (classes > 0 ? classes : most_classes) - 1,
                                                      [&] { return lines.place() + ", label"; })));
    if (list.size() % 1000 == 0) report_progress();
  }
  if (list.size() == 0)
    fail(ErrorKind::data, "{}: expected lines with the name of an image and its label, found none",
         file.string());
  return list;
}

template <class T>
void append_bytes(Bytes& bytes, const T* values, std::size_t count) {
  if (count == 0) return;
  const std::size_t begin = bytes.size();
  bytes.resize(begin + count * sizeof(T));
  std::memcpy(bytes.data() + begin, values, count * sizeof(T));
}

template <class T>
std::span<const std::byte> take_bytes(std::span<const std::byte> bytes, T* values,
                                      std::size_t count) {
  if (count > 0) std::memcpy(values, bytes.data(), count * sizeof(T));
  return bytes.subspan(count * sizeof(T));
}

}  // namespace

void ImageList::append(std::string_view name, std::int32_t label) {
  names_ += name;
  ends_.push_back(names_.size());
  labels_.push_back(label);
}

std::string_view ImageList::name(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::string_view(names_).substr(begin, ends_[at] - begin);
}

fs::path ImageList::path(std::int64_t i) const {
  return root_ / name(i);
}

ImageList ImageList::without(std::span<const std::int64_t> numbers) const {
  ImageList rest(root_);
  auto next = numbers.begin();
  for (std::int64_t i = 0; i < size(); ++i) {
    if (next != numbers.end() && *next == i)
      ++next;
    else
      rest.append(name(i), labels_[static_cast<std::size_t>(i)]);
  }
  return rest;
}

std::vector<ImageFile> ImageList::files(Range range) const {
  std::vector<ImageFile> files;
  for (std::int64_t i = range.begin; i < range.end; ++i)
    files.push_back({path(i), labels_[static_cast<std::size_t>(i)]});
  return files;
}

Bytes ImageList::encode() const {
  const std::string root = root_.string();
  const std::array<std::uint64_t, 3> sizes = {root.size(), names_.size(), labels_.size()};
  Bytes bytes;
  append_bytes(bytes, sizes.data(), sizes.size());
  append_bytes(bytes, root.data(), root.size());
  append_bytes(bytes, names_.data(), names_.size());
  append_bytes(bytes, ends_.data(), ends_.size());
  append_bytes(bytes, labels_.data(), labels_.size());
  return bytes;
}

ImageList ImageList::decode(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 3> sizes{};
  bytes = take_bytes(bytes, sizes.data(), sizes.size());
  std::string root(sizes[0], '\0');
  bytes = take_bytes(bytes, root.data(), root.size());
  ImageList list(root);
  list.names_.resize(sizes[1]);
  list.ends_.resize(sizes[2]);
  list.labels_.resize(sizes[2]);
  bytes = take_bytes(bytes, list.names_.data(), sizes[1]);
  bytes = take_bytes(bytes, list.ends_.data(), sizes[2]);
  take_bytes(bytes, list.labels_.data(), sizes[2]);
  return list;
}

ImageLists list_class_folders(const fs::path& train, const fs::path& test) {
  const std::vector<std::string> classes = image_classes(train);
  return {list_folder(train, DataSplit::train, classes),
          list_folder(test, DataSplit::test, classes), std::ssize(classes), classes};
}

ImageLists read_image_lists(const fs::path& train, const fs::path& test, const fs::path& root) {
  ImageList first = read_list(train, root, 0);
  const std::int64_t classes = 1 + std::int64_t{std::ranges::max(first.labels())};
  return {std::move(first), read_list(test, root, classes), classes};
}

ImageLists share_image_lists(Communicator& communicator, const std::function<ImageLists()>& list) {
  ImageLists lists;
  const auto share = [&](const std::function<Bytes()>& work) {
    return run_on_root(communicator, 0, work);
  };
  lists.train = ImageList::decode(share([&] {
    lists = list();
    return lists.train.encode();
  }));
  lists.test = ImageList::decode(share([&] { return lists.test.encode(); }));
  std::string names;
  for (const std::string& name : lists.class_names) names += name + '\n';
  const Bytes sent = share([&] { return text_to_bytes(names); });
  const Bytes count = share([&] { return encode_numbers({&lists.classes, 1}); });
  lists.classes = decode_numbers(count).at(0);
  lists.class_names.clear();
  std::string_view rest = bytes_to_text(sent);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    lists.class_names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return lists;
}

}  // namespace tasuki
