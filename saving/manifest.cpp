// The manifest of a checkpoint; declared in checkpoint.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/json.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"
#include "saving/checkpoint.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t format_version = 1;
constexpr std::size_t id_digits = 32;
// More than a million arrays have; guards against reading some other, huge file into memory.
constexpr std::size_t size_limit = std::size_t{1} << 28;

std::string in_quotes(const std::string& text) {
  return json(to_utf8(text)).dump(-1, ' ', /*ensure_ascii=*/true);
}

std::string text_of(const CheckpointManifest::Array& array) {
  std::string text =
      fmt::format(R"({{"name": {}, "xxh3": "{}")", in_quotes(array.name), hash_digits(array.hash));
  if (array.piece) {
    const auto& [range, whole] = *array.piece;
    text += fmt::format(R"(, "begin": {}, "end": {}, "shape": [{}])", range.begin, range.end,
                        fmt::join(whole.begin(), whole.end(), ", "));
  }
  return text + "}";
}

// Each array in a line of its own, or all in one.
std::string text_of(const CheckpointManifest::File& file, const char* separator) {
  std::string text =
      fmt::format(R"({{"name": {}, "part": {}, "bytes": {}, "hash": "{}", "arrays": [)",
                  in_quotes(file.name), in_quotes(file.part), file.bytes, hash_digits(file.hash));
  for (std::size_t i = 0; i < file.arrays.size(); ++i)
    text += (i > 0 ? "," : "") + std::string(separator) + text_of(file.arrays[i]);
  return text + separator + "]}";
}

// The line that ends a manifest whose other lines are `text`.
std::string last_line(std::string_view text) {
  return fmt::format("\"xxh3\": \"{}\"\n}}\n", hash_digits(hash_text(text)));
}

// Reads the values of one JSON object; errors say where it stands.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse("it is not an object");
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    fail(ErrorKind::data, "{}: {}", where_, printable(reason));
  }
  const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(fmt::format("it has no \"{}\"", key));
    return *found;
  }
  bool has(const char* key) const { return object_.contains(key); }
  std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) refuse(fmt::format("its \"{}\" is not text", key));
    return value.get<std::string>();
  }
  // Not negative.
  std::int64_t number(const char* key) const { return number(at(key), key); }
  std::int64_t number(const json& value, const char* key) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
      refuse(fmt::format("its \"{}\" is not a number from 0 to 2^63 - 1", key));
    return value.get<std::int64_t>();
  }
  std::uint64_t hash(const char* key) const {
    const auto hash = parse_hash(text(key));
    if (!hash) refuse(fmt::format("its \"{}\" is not 16 hexadecimal digits", key));
    return *hash;
  }
  const json& list(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) refuse(fmt::format("its \"{}\" is not a list", key));
    return value;
  }
  const std::string& where() const { return where_; }

 private:
  const json& object_;
  std::string where_;
};

Shape read_shape(const Reader& reader) {
  const json& list = reader.list("shape");
  if (list.size() > Shape::max_rank)
    reader.refuse(
        fmt::format("a shape has {} axes; {} are possible", list.size(), int{Shape::max_rank}));
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (const json& each : list) {
    sizes.push_back(reader.number(each, "shape"));
    if (__builtin_mul_overflow(count, sizes.back(), &count))
      reader.refuse("a shape has more than 2^63 - 1 elements");
  }
  return Shape(sizes);
}

CheckpointManifest::Array read_array(const json& object, const std::string& where) {
  const Reader reader(object, where);
  CheckpointManifest::Array array{reader.text("name"), reader.hash("xxh3"), std::nullopt};
  if (!reader.has("begin")) return array;
  const CheckpointManifest::Piece piece{{reader.number("begin"), reader.number("end")},
                                        read_shape(reader)};
  if (piece.range.begin > piece.range.end || piece.range.end > piece.whole.count())
    reader.refuse(fmt::format("elements {} to {} of {} ({}) are not part of it", piece.range.begin,
                              piece.range.end, array.name, piece.whole.text()));
  array.piece = piece;
  return array;
}

// A name in the manifest's own folder.
bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos && name != manifest_name;
}

CheckpointManifest::File read_file_entry(const json& object, const std::string& place) {
  const Reader reader(object, place + ", \"files\"");
  CheckpointManifest::File file{reader.text("name"),
                                reader.text("part"),
                                static_cast<std::uint64_t>(reader.number("bytes")),
                                reader.hash("hash"),
                                {}};
  if (!is_plain(file.name)) reader.refuse(in_quotes(file.name) + " is not a file name");
  const std::string where = fmt::format("{}, arrays of {}", place, printable(file.name));
  std::set<std::string> names;
  for (const json& each : reader.list("arrays")) {
    file.arrays.push_back(read_array(each, where));
    if (!names.insert(file.arrays.back().name).second)
      fail(ErrorKind::data, "{}: {} is there twice", where, printable(file.arrays.back().name));
  }
  return file;
}

}  // namespace

std::string CheckpointManifest::text() const {
  std::string text = fmt::format(
      "{{\n\"format\": {},\n\"id\": {},\n\"iteration\": {},\n\"epoch\": {},\n\"parts\": {},\n"
      "\"files\": [\n",
      format_version, in_quotes(id), iteration, epoch, parts);
  for (std::size_t i = 0; i < files.size(); ++i)
    text += (i > 0 ? ",\n" : "") + text_of(files[i], "\n ");
  text += "\n],\n";
  return text + last_line(text);
}

CheckpointManifest CheckpointManifest::parse(std::string_view text, std::string_view place) {
  // Damage is found before anything is made of the text.
  const std::size_t last_bytes = last_line("").size();
  if (text.size() < last_bytes ||
      text.substr(text.size() - last_bytes) != last_line(text.substr(0, text.size() - last_bytes)))
    fail(ErrorKind::data, "{} is damaged: it does not end in the hash of its text", place);
  const json object = parse_json(text, place, limits_of_logs);
  const std::string where(place);
  const Reader reader(object, where);
  if (const std::int64_t format = reader.number("format"); format != format_version)
    reader.refuse(
        fmt::format("it has format {}; this version of Tasuki reads {}", format, format_version));
  CheckpointManifest manifest{reader.text("id"),
                              reader.number("iteration"),
                              reader.number("epoch"),
                              reader.number("parts"),
                              {}};
  if (manifest.id.size() != id_digits ||
      manifest.id.find_first_not_of("0123456789abcdef") != std::string::npos)
    reader.refuse(fmt::format("its \"id\" is not {} hexadecimal digits", id_digits));
  std::set<std::string> names;
  for (const json& each : reader.list("files")) {
    manifest.files.push_back(read_file_entry(each, where));
    if (!names.insert(manifest.files.back().name).second)
      reader.refuse(manifest.files.back().name + " is there twice");
  }
  if (manifest.files.empty() || manifest.parts == 0) reader.refuse("it names no files or no parts");
  if (manifest.text() != text)
    reader.refuse("it is not in the form in which manifests are written");
  return manifest;
}

CheckpointManifest CheckpointManifest::read(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  return parse(read_own_file(path, size_limit), path.string());
}

std::string to_line(const CheckpointManifest::File& file) {
  return text_of(file, "");
}

CheckpointManifest::File file_of_line(std::string_view line) {
  return read_file_entry(parse_json(line, "the description of a file"),
                         "the description of a file");
}

}  // namespace tasuki
