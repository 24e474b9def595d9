#include "model/checkpoint/formats/torch/zip_archive.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/byte_cursor.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kEndRecord = 0x06054b50;
constexpr std::uint32_t kEndRecord64 = 0x06064b50;
constexpr std::uint32_t kEndLocator64 = 0x07064b50;

constexpr std::size_t kDirectoryHeaderBytes = 46;
constexpr std::size_t kEndRecordBytes = 22;
constexpr std::size_t kEndLocator64Bytes = 20;
constexpr std::size_t kLongestComment = 0xFFFF;
constexpr std::uint16_t kZip64Extra = 1;

/// A 32-bit field with this value has its number in the zip64 extra field.
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;
constexpr std::uint16_t kEncrypted = 1;

[[noreturn]] void fail_archive(const std::string& what, const std::string& subject) {
  throw Error(ErrorCode::decode_failed, what, subject,
              "the file was cut off or damaged: download or copy it again");
}

/// Replaces the saturated numbers of `fields` by the zip64 extra field's.
void widen(std::span<const std::byte> extra, std::span<std::uint64_t*> fields,
           const std::string& subject) {
  if (std::ranges::none_of(fields, [](const auto* field) { return *field == kIn64; })) return;
  ByteCursor cursor(extra, "the extra field of a zip entry", subject);
  while (cursor.remaining() > 0) {
    const auto kind = cursor.number<std::uint16_t>();
    const auto content = cursor.take(cursor.number<std::uint16_t>());
    if (kind != kZip64Extra) continue;
    ByteCursor wide(content, "the zip64 field of a zip entry", subject);
    for (std::uint64_t* field : fields) {
      if (*field == kIn64) *field = wide.number<std::uint64_t>();
    }
    return;
  }
  fail_archive("an entry of the zip archive needs a zip64 field and has none", subject);
}

}  // namespace

struct ZipArchive::Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

std::size_t ZipArchive::find_end_record() const {
  if (bytes_.size() >= kEndRecordBytes) {
    const std::size_t last = bytes_.size() - kEndRecordBytes;
    const std::size_t first = last - std::min(last, kLongestComment);
    for (std::size_t at = last + 1; at-- > first;) {
      if (bytes_[at] != std::byte{'P'}) continue;
      ByteCursor cursor(bytes_.subspan(at), "the zip archive", subject_);
      if (cursor.number<std::uint32_t>() != kEndRecord) continue;
      cursor.take(kEndRecordBytes - 6);
      // A comment may hold the signature, too; the true record reaches the end of the file.
      if (cursor.number<std::uint16_t>() == cursor.remaining()) return at;
    }
  }
  fail_archive("expected a zip archive to end with its central directory, found none in " +
                   std::to_string(bytes_.size()) + " bytes",
               subject_);
}

ZipArchive::Directory ZipArchive::find_directory() const {
  const std::size_t end = find_end_record();
  ByteCursor record(bytes_.subspan(end), "the zip archive's end record", subject_);
  record.take(4);
  const auto disk = record.number<std::uint16_t>();
  const auto directory_disk = record.number<std::uint16_t>();
  record.take(2);
  Directory directory;
  directory.entries = record.number<std::uint16_t>();
  directory.size = record.number<std::uint32_t>();
  directory.offset = record.number<std::uint32_t>();
  const bool is_saturated = directory.entries == 0xFFFF || directory.size == kIn64 ||
                            directory.offset == kIn64 || disk == 0xFFFF;

  std::size_t limit = end;
  if (end >= kEndLocator64Bytes) {
    ByteCursor locator(bytes_.subspan(end - kEndLocator64Bytes), "the zip64 locator", subject_);
    if (locator.number<std::uint32_t>() == kEndLocator64) {
      locator.take(4);
      const auto at = locator.number<std::uint64_t>();
      limit = end - kEndLocator64Bytes;
      if (at > limit) fail_archive("the zip64 end record lies outside the file", subject_);
      limit = static_cast<std::size_t>(at);
      ByteCursor wide(bytes_.subspan(limit, end - limit), "the zip64 end record", subject_);
      if (wide.number<std::uint32_t>() != kEndRecord64) {
        fail_archive("the zip64 locator points to no zip64 end record", subject_);
      }
      wide.take(28);
      directory.entries = wide.number<std::uint64_t>();
      directory.size = wide.number<std::uint64_t>();
      directory.offset = wide.number<std::uint64_t>();
    } else if (is_saturated) {
      fail_archive("the zip archive needs a zip64 end record and has none", subject_);
    }
  }
  if (disk != directory_disk || (disk != 0 && disk != 0xFFFF)) {
    fail_archive("the zip archive is one part of several", subject_);
  }
  if (directory.offset > limit || directory.size > limit - directory.offset) {
    fail_archive("the central directory at byte " + std::to_string(directory.offset) + " with " +
                     std::to_string(directory.size) + " bytes lies outside the file",
                 subject_);
  }
  if (directory.entries > directory.size / kDirectoryHeaderBytes) {
    fail_archive(std::to_string(directory.entries) +
                     " entries do not fit into a central directory of " +
                     std::to_string(directory.size) + " bytes",
                 subject_);
  }
  return directory;
}

ZipArchive::ZipArchive(std::span<const std::byte> bytes, std::string subject)
    : bytes_(bytes), subject_(std::move(subject)) {
  const Directory directory = find_directory();
  directory_offset_ = directory.offset;
  ByteCursor cursor(bytes_.subspan(static_cast<std::size_t>(directory.offset),
                                   static_cast<std::size_t>(directory.size)),
                    "the central directory of the zip archive", subject_);
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (cursor.number<std::uint32_t>() != kDirectoryHeader) cursor.fail("expected an entry");
    Entry entry;
    cursor.take(4);
    entry.flags = cursor.number<std::uint16_t>();
    entry.method = cursor.number<std::uint16_t>();
    cursor.take(8);
    entry.stored_size = cursor.number<std::uint32_t>();
    entry.size = cursor.number<std::uint32_t>();
    const auto name_size = cursor.number<std::uint16_t>();
    const auto extra_size = cursor.number<std::uint16_t>();
    const auto comment_size = cursor.number<std::uint16_t>();
    cursor.take(8);
    entry.header_offset = cursor.number<std::uint32_t>();
    const std::string_view name = cursor.text(name_size);
    std::uint64_t* fields[] = {&entry.size, &entry.stored_size, &entry.header_offset};
    widen(cursor.take(extra_size), fields, subject_);
    cursor.take(comment_size);
    if (!entries_.emplace(name, entry).second) {
      fail_archive("the zip archive names " + quote(name) + " twice", subject_);
    }
  }
}

std::span<const std::byte> ZipArchive::content(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail_archive("the zip archive has no " + quote(name), subject_);
  const Entry& entry = found->second;
  if (entry.method != 0 || (entry.flags & kEncrypted) != 0) {
    throw Error(ErrorCode::unsupported_format,
                quote(name) + " is " +
                    ((entry.flags & kEncrypted) != 0 ? "encrypted" : "compressed") +
                    ", expected it as torch.save stores it",
                subject_, "do not repack the file: use it as torch.save wrote it");
  }
  if (entry.size != entry.stored_size) {
    fail_archive(quote(name) + " has two sizes, " + std::to_string(entry.size) + " and " +
                     std::to_string(entry.stored_size) + " bytes",
                 subject_);
  }
  if (entry.header_offset > directory_offset_) {
    fail_archive(quote(name) + " lies outside the file", subject_);
  }
  const auto offset = static_cast<std::size_t>(entry.header_offset);
  ByteCursor cursor(bytes_.subspan(offset, static_cast<std::size_t>(directory_offset_) - offset),
                    "the zip archive at " + quote(name), subject_);
  if (cursor.number<std::uint32_t>() != kLocalHeader) cursor.fail("expected a local header");
  // The sizes here may be zero: torch.save writes them after the content.
  cursor.take(22);
  const auto name_size = cursor.number<std::uint16_t>();
  const auto extra_size = cursor.number<std::uint16_t>();
  if (cursor.text(name_size) != name) cursor.fail("the local header has another name");
  cursor.take(extra_size);
  return cursor.take(entry.size);
}

}  // namespace hydrascope::checkpoint
