// Arrays as NumPy reads them: shapes of any numbers, names of any bytes, and the archive of several.
#include "app/results/npy_file.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstring>

namespace app = hydrascope::app;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hydrascope::fuzz::Folder kFolder;
  if (size < 2) return 0;
  const std::size_t rank = data[0] % 40;
  std::size_t at = 2;
  std::vector<std::int64_t> shape(rank);
  for (std::int64_t& extent : shape) {
    // Of one byte or of eight, so that products are small and beyond 64 bits.
    const std::size_t width = std::min<std::size_t>(data[1] % 2 == 0 ? 1 : 8, size - at);
    std::memcpy(&extent, data + at, width);
    at += width;
  }
  std::vector<float> values((size - at) / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), data + at, values.size() * sizeof(float));
  const std::string name(hydrascope::fuzz::as_text(data, size).substr(0, data[1]));

  const bool fits = gives_result([&] { app::check_shape(shape, values.size(), "fuzz"); });
  if (rank < 32) {
    const std::string header = app::npy_header(shape);
    require(header.size() % 64 == 0 && header.back() == '\n', "values are aligned");
    const std::size_t length = static_cast<unsigned char>(header[8]) |
                               std::size_t{static_cast<unsigned char>(header[9])} << 8;
    require(10 + length == header.size(), "a header says its length");
  }
  const auto array = kFolder.path() / "a.npy";
  const bool is_written = gives_result([&] {
    app::NpyWriter writer(array);
    writer.append_nan();
    writer.append(values, shape);
    writer.append(values, shape);
    writer.close();
  });
  require(is_written == fits, "what has its shape is written");
  if (is_written)
    require((std::filesystem::file_size(array) - 3 * values.size() * sizeof(float)) % 64 == 0,
            "three rows behind a header");
  gives_result([&] {
    app::NpzWriter archive(kFolder.path() / "a.npz");
    archive.add(name, values, shape);
    archive.add("b", values, shape);
    archive.close();
  });
  return 0;
}
