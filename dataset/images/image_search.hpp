// Finds the files in a folder that are readable images, and those that are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki {

// Files that are images by their names or first bytes but are not read.
struct LeftOutImages {
  std::int64_t count = 0;
  std::string example;  // "cat/a.webp (WebP)", below the folder that was searched
};

// Whether a name ends in .jpg, .jpeg or .png, in capitals or not.
bool is_image_name(const std::filesystem::path& path);

// Searches folders, subfolders and link targets. Each folder below the first is searched once, and
// folders above it never, so links may form circles. Entries whose names begin with a dot are
// skipped.
class ImageSearch {
 public:
  // Names in left_out() are relative to `top`.
  explicit ImageSearch(std::filesystem::path top);

  // The files with image names (is_image_name) in `folder` (`top` or a folder below it) and its
  // subfolders, in alphabetical order. A folder that cannot be listed is an error that names it.
  std::vector<std::filesystem::path> images_in(const std::filesystem::path& folder);
  // For a top folder whose subfolders hold the images: counts the images directly in it as left
  // out.
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
  std::set<FolderId> entered_;  // the same, and folders already searched
  LeftOutImages left_out_;
};

// The entries of a folder whose names do not begin with a dot, in alphabetical order. An error of
// kind missing, or io where it is there but cannot be listed, names the folder.
std::vector<std::filesystem::directory_entry> visible_entries(const std::filesystem::path& folder);

}  // namespace tasuki
