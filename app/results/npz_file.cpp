#include "app/results/npz_file.h"

#include "app/results/npy_file.h"
#include "kernels/error.h"
#include "model/image/decoders/crc32.h"

#include <limits>
#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr std::uint16_t kVersion = 20;            // of the format: 2.0
constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;  // general purpose bit 11
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kMidnight = 0;
constexpr std::uint16_t kFirstOfJanuary1980 = (1 << 5) | 1;

/// Little-endian fields, one after the other.
class Fields {
 public:
  Fields& u16(std::uint16_t value) { return bytes(value, 2); }
  Fields& u32(std::uint32_t value) { return bytes(value, 4); }
  Fields& text(std::string_view value) {
    text_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& str() const noexcept { return text_; }

 private:
  Fields& bytes(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>((value >> (8 * i)) & 0xFF);
    return *this;
  }
  std::string text_;
};

/// The fields that an entry's own header and the directory share.
void add_description(Fields& fields, std::uint32_t crc, std::uint32_t size,
                     const std::string& name) {
  fields.u16(kVersion).u16(kNamesAreUtf8).u16(kStored).u16(kMidnight).u16(kFirstOfJanuary1980);
  fields.u32(crc).u32(size).u32(size);
  fields.u16(static_cast<std::uint16_t>(name.size())).u16(0);
}

}  // namespace

NpzWriter::NpzWriter(const std::filesystem::path& file) : name_(file.native()), file_(file) {}

void NpzWriter::add(const std::string& name, std::span<const float> values,
                    std::span<const std::int64_t> shape) {
  const std::string subject = name_ + ": " + name;
  check_shape(shape, values.size(), subject);
  if (!names_.insert(name).second)
    throw Error(ErrorCode::invalid_argument, "the archive has an array of that name", subject);
  const std::string header = npy_header(shape);
  const std::uint64_t size = header.size() + values.size_bytes();
  const std::string entry_name = name + ".npy";
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t kDirectoryRoom = std::uint64_t{1} << 26;
  if (written_ + size + kDirectoryRoom > kLargest ||
      entries_.size() == std::numeric_limits<std::uint16_t>::max() ||
      entry_name.size() > std::numeric_limits<std::uint16_t>::max())
    throw Error(ErrorCode::too_large, "more than a zip archive of 32 bits holds", subject);

  std::uint32_t crc = image::crc32(std::as_bytes(std::span(header)));
  crc = image::crc32(std::as_bytes(values), crc);
  const Entry entry{entry_name, crc, static_cast<std::uint32_t>(size),
                    static_cast<std::uint32_t>(written_)};
  Fields local;
  local.u32(0x04034B50);
  add_description(local, entry.crc, entry.size, entry.name);
  local.text(entry.name);
  write(std::as_bytes(std::span(local.str())));
  write(std::as_bytes(std::span(header)));
  write(std::as_bytes(values));
  entries_.push_back(entry);
}

void NpzWriter::close() {
  const auto offset = static_cast<std::uint32_t>(written_);
  for (const Entry& entry : entries_) {
    Fields directory;
    directory.u32(0x02014B50).u16(kVersion);
    add_description(directory, entry.crc, entry.size, entry.name);
    // No comment, first disk, binary, no attributes.
    directory.u16(0).u16(0).u16(0).u32(0).u32(entry.offset).text(entry.name);
    write(std::as_bytes(std::span(directory.str())));
  }
  const auto size = static_cast<std::uint32_t>(written_ - offset);
  const auto count = static_cast<std::uint16_t>(entries_.size());
  Fields end;
  end.u32(0x06054B50).u16(0).u16(0).u16(count).u16(count).u32(size).u32(offset).u16(0);
  write(std::as_bytes(std::span(end.str())));
  file_.commit();
}

void NpzWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  written_ += bytes.size();
}

}  // namespace hydrascope::app
