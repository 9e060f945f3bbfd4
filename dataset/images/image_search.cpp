#include "dataset/images/image_search.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>

#include "core/activity.hpp"
#include "core/file.hpp"
#include "core/printable.hpp"
#include "dataset/images/image.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

std::string lower_ending(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

// Formats that are not read, by the endings of names; empty for other endings.
std::string_view format_of_ending(std::string_view ending) {
  struct Format {
    std::string_view ending, name;
  };
  constexpr Format formats[] = {
      {".webp", "WebP"},   {".gif", "GIF"},       {".bmp", "BMP"},       {".tif", "TIFF"},
      {".tiff", "TIFF"},   {".avif", "AVIF"},     {".heic", "HEIF"},     {".heif", "HEIF"},
      {".jxl", "JPEG XL"}, {".jp2", "JPEG 2000"}, {".j2k", "JPEG 2000"}, {".ppm", "PPM"},
      {".pgm", "PGM"},     {".pbm", "PBM"},       {".tga", "TGA"},       {".ico", "ICO"},
      {".svg", "SVG"},     {".psd", "PSD"},
  };
  const auto* const found = std::ranges::find(formats, ending, &Format::ending);
  return found == std::end(formats) ? "" : found->name;
}

// Annotations and the like, perhaps as many as there are images, are not opened.
bool is_ending_of_no_image(std::string_view ending) {
  constexpr std::string_view endings[] = {".csv", ".htm", ".html", ".json", ".log", ".m",  ".mat",
                                          ".md",  ".npy", ".npz",  ".pdf",  ".pkl", ".py", ".sh",
                                          ".tsv", ".txt", ".xml",  ".yaml", ".yml", ".zip"};
  return std::ranges::find(endings, ending) != std::end(endings);
}

// Identifies a folder, which links may reach by several names; (0, 0) if there is none.
std::pair<std::uint64_t, std::uint64_t> id_of(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// A file's format by its first bytes; empty if it is not an image.
std::string_view format_of_contents(const fs::path& path) {
  std::array<char, 12> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  const std::string_view text(start.data(), static_cast<std::size_t>(file.gcount()));
  if (starts_image(std::as_bytes(std::span(text)))) return "its name has another ending";
  if (text.starts_with("GIF8")) return "GIF";
  if (text.starts_with("RIFF") && text.ends_with("WEBP")) return "WebP";
  if (text.starts_with(std::string_view("II*\0", 4)) ||
      text.starts_with(std::string_view("MM\0*", 4)))
    return "TIFF";
  return "";
}

}  // namespace

std::vector<fs::directory_entry> visible_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->path().filename().string().starts_with('.')) entries.push_back(*entry);
  if (error)
    fail(kind_of_absence(error), "{}: expected a readable folder of images, found: {}",
         folder.string(), error.message());
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path(); });
  return entries;
}

bool is_image_name(const fs::path& path) {
  const std::string ending = lower_ending(path);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

ImageSearch::ImageSearch(fs::path top) : top_(std::move(top)) {
  // On both ways up: by name, and from the target of links.
  std::error_code ignored;
  for (const fs::path& place : {fs::absolute(top_, ignored), fs::canonical(top_, ignored)})
    for (fs::path above = place; above.has_relative_path(); above = above.parent_path())
      closed_.insert(id_of(above.parent_path()));
  closed_.erase(id_of(top_));  // names may end in "/" or "/."
}

std::vector<fs::path> ImageSearch::images_in(const fs::path& folder) {
  std::vector<fs::path> images;
  entered_ = closed_;
  search(folder, images);
  return images;
}

void ImageSearch::search(const fs::path& folder, std::vector<fs::path>& images) {
  if (!entered_.insert(id_of(folder)).second) return;
  report_progress();
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    std::error_code ignored;
    // Links with image names need no stat: most data sets made of links are large.
    const bool is_named = is_image_name(entry.path());
    const bool is_folder = !(is_named && entry.is_symlink(ignored)) && entry.is_directory(ignored);
    if (is_folder)
      search(entry.path(), images);
    else if (is_named)
      images.push_back(entry.path());
    else
      look_at(entry.path());
  }
}

void ImageSearch::look_at(const fs::path& file) {
  const std::string ending = lower_ending(file);
  if (is_ending_of_no_image(ending)) return;
  if (const std::string_view format = format_of_ending(ending); !format.empty())
    return leave_out(file, format);
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) return leave_out(file, "a link to nothing");
  if (!fs::is_regular_file(status)) return;
  report_progress();
  if (const std::string_view format = format_of_contents(file); !format.empty())
    leave_out(file, format);
}

void ImageSearch::leave_out(const fs::path& file, std::string_view why) {
  constexpr std::size_t most_shown = 200;
  if (left_out_.count++ > 0) return;
  left_out_.example =
      fmt::format("{} ({})", printable(file.lexically_relative(top_).string(), most_shown), why);
}

void ImageSearch::leave_out_own() {
  closed_.insert(id_of(top_));
  for (const fs::directory_entry& entry : visible_entries(top_)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) continue;
    if (is_image_name(entry.path()))
      leave_out(entry.path(), "not in the folder of a class");
    else
      look_at(entry.path());
  }
}

std::string ImageSearch::text_of_left_out() const {
  if (left_out_.count == 0) return "";
  return fmt::format(
      "{}: {} {} left out, for example {}; only JPEG and PNG images named .jpg, .jpeg or .png "
      "are read",
      top_.string(), left_out_.count, left_out_.count == 1 ? "file is" : "files are",
      left_out_.example);
}

}  // namespace tasuki
