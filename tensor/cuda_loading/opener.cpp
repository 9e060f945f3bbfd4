#include "tensor/cuda_loading/opener.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>

#include "tensor/cuda_loading/loader.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

// The output of a command, by line; nothing if it cannot be run.
std::vector<std::string> lines_of(const char* command) {
  const auto close = [](std::FILE* pipe) { ::pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(::popen(command, "re"), close);
  std::vector<std::string> lines;
  if (!pipe) return lines;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::string_view text(line.data());
    if (text.ends_with('\n')) text.remove_suffix(1);
    lines.emplace_back(text);
  }
  return lines;
}

// Folders that may hold NVIDIA's libraries.
std::vector<fs::path> cuda_library_folders() {
  std::vector<fs::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* const root = std::getenv(variable);
    if (root == nullptr || *root == '\0') continue;
    folders.push_back(fs::path(root) / "lib64");
    folders.push_back(fs::path(root) / "lib");
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const std::string& line :
       lines_of("python3 -c 'import glob, site, sys\n"
                "roots = [p for p in sys.path if p] + [site.getusersitepackages()]\n"
                "for root in dict.fromkeys(roots):\n"
                "  for pattern in (\"/nvidia/*/lib\", \"/torch/lib\"):\n"
                "    print(*sorted(glob.glob(root + pattern)), sep=\"\\n\")' 2>/dev/null"))
    if (!line.empty()) folders.emplace_back(line);
  return folders;
}

}  // namespace

OpenedLibrary Opener::open(const std::string& name) {
  for (;;) {
    if (void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return {handle, "", ""};
    const char* const error = ::dlerror();
    OpenedLibrary failed{nullptr, "", error != nullptr ? error : ""};
    failed.missing = missing_library(failed.message);
    // Each library is looked for once: one that was opened and is still reported as missing
    // cannot be helped.
    if (failed.missing.empty() || failed.missing == name || !tried_.insert(failed.missing).second)
      return failed;
    const std::optional<fs::path> found = find(failed.missing);
    if (!found) return failed;
    OpenedLibrary dependency = open(found->string());
    if (dependency.handle == nullptr) return dependency;
  }
}

OpenedLibrary Opener::open_anywhere(const std::string& name) {
  OpenedLibrary opened = open(name);
  if (opened.missing != name) return opened;
  const std::optional<fs::path> found = find(name);
  return found ? open(found->string()) : opened;
}

std::optional<fs::path> Opener::find(const std::string& library) {
  if (!folders_) folders_ = cuda_library_folders();
  for (const fs::path& folder : *folders_) {
    std::error_code ignored;
    if (fs::path path = folder / library; fs::exists(path, ignored)) return path;
  }
  return std::nullopt;
}

}  // namespace tasuki
