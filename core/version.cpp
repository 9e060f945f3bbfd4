// What version() returns is written by the build (cmake/TasukiVersion.cmake).
#include "core/version.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

namespace tasuki {
namespace {

constexpr std::size_t shown_bytes = 8;

// Each part of a note begins at a multiple of 4 bytes.
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

// The description of the note of this kind by GNU; empty if there is none.
std::span<const std::byte> find_note(std::span<const std::byte> notes, ElfW(Word) kind) {
  constexpr std::string_view owner("GNU\0", 4);  // with its end
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    const std::size_t name = sizeof(header), contents = name + padded(header.n_namesz),
                      end = contents + padded(header.n_descsz);
    if (end > notes.size()) break;
    if (header.n_type == kind && header.n_namesz == owner.size() &&
        std::memcmp(notes.data() + name, owner.data(), owner.size()) == 0)
      return notes.subspan(contents, header.n_descsz);
    notes = notes.subspan(end);
  }
  return {};
}

std::string build_of(const dl_phdr_info& module) {
  for (const auto& segment : std::span(module.dlpi_phdr, module.dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* const begin = std::bit_cast<const std::byte*>(module.dlpi_addr + segment.p_vaddr);
    const auto id = find_note({begin, segment.p_memsz}, NT_GNU_BUILD_ID);
    if (id.empty()) continue;
    std::string text = "build ";
    for (const std::byte byte : id.first(std::min(id.size(), shown_bytes)))
      text += fmt::format("{:02x}", std::to_integer<int>(byte));
    return text;
  }
  return "without a build id";
}

// The program's file, whatever name it was called by; empty if the system does not say.
std::string program_name() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).filename().string();
}

int add_build(dl_phdr_info* module, std::size_t /*size*/, void* builds) {
  const bool is_program = *module->dlpi_name == '\0';
  const std::string name =
      is_program ? program_name() : std::filesystem::path(module->dlpi_name).filename().string();
  if ((is_program && !name.empty()) || name.starts_with("libtasuki"))
    static_cast<std::vector<std::string>*>(builds)->push_back(
        fmt::format("{}, {}", name, build_of(*module)));
  return 0;
}

}  // namespace

std::vector<std::string> loaded_builds() {
  std::vector<std::string> builds;
  dl_iterate_phdr(add_build, &builds);
  std::ranges::sort(builds);
  return builds;
}

}  // namespace tasuki
