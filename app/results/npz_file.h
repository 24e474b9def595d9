// NumPy's .npz: a zip archive of .npy entries, float32, not compressed, so that numpy.load can map
// them. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.savez.html, PKWARE's APPNOTE.TXT 6.3.9,
// sections 4.3.7, 4.3.12 and 4.3.16.
#pragma once

#include "kernels/new_file.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Arrays by name. The same arrays give the same bytes: entries carry no time. The file has its
/// name from `close` on; without it nothing is left.
class NpzWriter {
 public:
  /// Throws Error(unwritable) if writing fails, as all that write do.
  explicit NpzWriter(const std::filesystem::path& file);
  /// `values` holds the product of `shape` floats, else Error(invalid_argument), as for a name that
  /// came before; Error(too_large) where the archive would pass 4 GiB or 65535 arrays.
  void add(const std::string& name, std::span<const float> values,
           std::span<const std::int64_t> shape);
  /// Writes the directory and names the file.
  void close();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0;
    std::uint32_t size = 0;
    std::uint32_t offset = 0;
  };
  void write(std::span<const std::byte> bytes);

  std::string name_;
  NewFile file_;
  std::set<std::string> names_;
  std::vector<Entry> entries_;
  std::uint64_t written_ = 0;
};

}  // namespace hydrascope::app
