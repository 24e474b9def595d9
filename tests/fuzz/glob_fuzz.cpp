// Patterns of files, and lists of paths.
#include "app/pictures/glob.h"
#include "app/pictures/path_lines.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <sstream>

namespace app = hydrascope::app;
using hydrascope::fuzz::require;

namespace {

/// Some folders and files, with a link that leads back.
const hydrascope::fuzz::Folder& tree() {
  static const hydrascope::fuzz::Folder kFolder;
  static const bool kIsMade = [] {
    namespace fs = std::filesystem;
    fs::create_directories(kFolder.path() / "a" / "bb" / ".hidden");
    for (const char* file : {"x1.jpg", "x2.png", "a/y[1].jpg", "a/bb/z.jpg", "a/bb/.hidden/z.jpg",
                             "a/\xC3\xA9.jpg", "a/-", "a/bb/]"})
      kFolder.write(file, "");
    fs::create_directory_symlink("..", kFolder.path() / "a" / "up");
    fs::create_symlink("nothing", kFolder.path() / "a" / "broken");
    return true;
  }();
  require(kIsMade, "the folder is made");
  return kFolder;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = hydrascope::fuzz::parts_of(hydrascope::fuzz::as_text(data, size), 3);
  const bool is_segment = parts[0].find('/') == std::string_view::npos;
  if (is_segment && parts[1].find('/') == std::string_view::npos) {
    static_cast<void>(app::matches_segment(parts[0], parts[1]));
    const bool is_name = !parts[0].empty() && parts[0].find('\0') == std::string_view::npos;
    if (is_name && !app::has_wildcard(parts[0]))
      require(app::matches_segment(parts[0], parts[0]), "a name matches itself");
  }
  std::vector<std::string> found;
  app::GlobWalk walk(tree().path().string(), parts[0], app::NameOrder::bytes);
  while (auto match = walk.next()) {
    if (!match->error) found.push_back(match->path);
    require(found.size() < 1000, "walks end");
  }
  require(std::ranges::is_sorted(found) && std::ranges::adjacent_find(found) == found.end(),
          "each file once, in order");

  std::istringstream stream{std::string(parts[2])};
  hydrascope::fuzz::gives_result([&] {
    app::PathLines lines("-", stream);
    while (const auto line = lines.next()) {
      const bool is_one =
          line->text.find('\n') == std::string::npos || line->text.find('\0') == std::string::npos;
      require(!line->text.empty() && is_one, "a line is one");
    }
  });
  return 0;
}
