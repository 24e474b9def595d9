// The common parts of fuzz targets. A target is a file NAME_fuzz.cpp that defines LLVMFuzzerTestOneInput, as libFuzzer wants
// it (scripts/fuzz.sh); corpus_test.cpp runs kept inputs through all of them.
#pragma once

#include "kernels/error.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hydrascope::fuzz {

/// An assertion that is there in every build.
inline void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "broken invariant: %s\n", invariant);
  std::abort();
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Runs `read`, and says whether it gave a result. Anything but an Error ends the program: that is what
/// fuzzing is for. So does an Error that blames the program (internal) or whose message nobody could read.
template <class Read>
bool gives_result(Read read, std::size_t longest_message = 20000) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string_view what = error.what();
    require(error.code() != ErrorCode::internal,
            "what is wrong with an input is not the program's mistake");
    require(!what.empty() && what.size() < longest_message, "messages are there and short");
    return false;
  }
}

/// The parts of an input that is several things: it is cut at bytes 0xFF 0xFE, which no UTF-8 holds. The last
/// part has the rest; what is not there is empty.
inline std::vector<std::string_view> parts_of(std::string_view input, std::size_t count) {
  std::vector<std::string_view> parts(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? input.find("\xFF\xFE") : std::string_view::npos;
    parts[i] = input.substr(0, end);
    input = end == std::string_view::npos ? std::string_view() : input.substr(end + 2);
  }
  return parts;
}

/// A folder of this process, for what is read from files; it is gone at the end of the program.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "hydrascope_fuzz_XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "there is room for a folder");
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// A file with these bytes, in the place of the one before.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace hydrascope::fuzz
