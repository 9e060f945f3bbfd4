// Which files in a folder are images that can be read, and which are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki {

// Files that are images as far as their names or first bytes tell, but are not read.
struct LeftOutImages {
  std::int64_t count = 0;
  std::string example;  // "cat/a.webp (WebP)", below the folder that was searched
};

// Whether a name ends in .jpg, .jpeg or .png, in capitals or not.
bool is_image_name(const std::filesystem::path& path);

// Searches folders, their subfolders and what links lead to: each folder below the first one once,
// and those above it never, so links may form circles. Entries whose names begin with a dot are
// passed over.
class ImageSearch {
 public:
  // Names in left_out() are relative to `top`.
  explicit ImageSearch(std::filesystem::path top);

  // The files with names of images (is_image_name) in `folder`, which is `top` or below it, and
  // further below, in alphabetical order. A folder that cannot be listed is an error that names it.
  std::vector<std::filesystem::path> images_in(const std::filesystem::path& folder);
  // Of a top folder that has images in its subfolders only: counts its own.
  void leave_out_own();

  const LeftOutImages& left_out() const { return left_out_; }
  // "DIR/train: 12 files are left out, for example cat/a.webp (WebP); ..."; empty if none is.
  std::string text_of_left_out() const;

 private:
  using FolderId = std::pair<std::uint64_t, std::uint64_t>;

  void search(const std::filesystem::path& folder, std::vector<std::filesystem::path>& images);
  void look_at(const std::filesystem::path& file);
  void leave_out(const std::filesystem::path& file, std::string_view why);

  std::filesystem::path top_;
  std::set<FolderId> closed_;   // folders that no link may lead back to
  std::set<FolderId> entered_;  // the same, and those that were searched
  LeftOutImages left_out_;
};

// The entries of a folder whose names do not begin with a dot, in alphabetical order. An error of
// kind missing, or io where it is there but cannot be listed, names the folder.
std::vector<std::filesystem::directory_entry> visible_entries(const std::filesystem::path& folder);

}  // namespace tasuki
