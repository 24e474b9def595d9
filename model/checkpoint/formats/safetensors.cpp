#include "model/checkpoint/formats/safetensors.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors_header.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are used as they lie in the file");

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};

/// In the order of the enumeration.
constexpr std::array kDtypes{
    DtypeRow{Dtype::BOOL, "BOOL", 1},       DtypeRow{Dtype::U8, "U8", 1},
    DtypeRow{Dtype::I8, "I8", 1},           DtypeRow{Dtype::I16, "I16", 2},
    DtypeRow{Dtype::U16, "U16", 2},         DtypeRow{Dtype::F16, "F16", 2},
    DtypeRow{Dtype::BF16, "BF16", 2},       DtypeRow{Dtype::I32, "I32", 4},
    DtypeRow{Dtype::U32, "U32", 4},         DtypeRow{Dtype::F32, "F32", 4},
    DtypeRow{Dtype::I64, "I64", 8},         DtypeRow{Dtype::U64, "U64", 8},
    DtypeRow{Dtype::F64, "F64", 8},         DtypeRow{Dtype::F8_E4M3, "F8_E4M3", 1},
    DtypeRow{Dtype::F8_E5M2, "F8_E5M2", 1}, DtypeRow{Dtype::F8_E8M0, "F8_E8M0", 1},
    DtypeRow{Dtype::C64, "C64", 8},
};

const DtypeRow& row_of(Dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)); }

constexpr std::size_t kLengthBytes = 8;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The header's length; `bytes` holds at least kLengthBytes.
std::uint64_t read_length(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return length;
}

[[noreturn]] void fail(const std::string& what, const std::string& subject, std::string hint = {}) {
  throw Error(ErrorCode::decode_failed, what, subject, std::move(hint));
}

constexpr const char* kDownloadAgain = "the file was cut off or damaged: download or copy it again";

bool looks_like_html(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\f"), text.size()));
  const auto begins_with = [text](std::string_view tag) {
    return text.size() >= tag.size() &&
           std::equal(tag.begin(), tag.end(), text.begin(), [](char expected, char found) {
             return expected == (found >= 'A' && found <= 'Z' ? found - 'A' + 'a' : found);
           });
  };
  return begins_with("<!doctype") || begins_with("<html");
}

struct ForeignFormat {
  std::string_view name;
  const char* what;
  const char* hint;
};

constexpr std::array kForeignFormats{
    ForeignFormat{"git_lfs_pointer", "a Git LFS pointer, which only names the weights",
                  "fetch what it points to: git lfs pull in its repository"},
    ForeignFormat{"html", "an HTML page: a failed download",
                  "check the link and whether it asks for a login, then download the file again"},
    ForeignFormat{"torch_zip", "a zip archive, as torch.save writes it",
                  "convert it to safetensors, which `format_only` does"},
    ForeignFormat{"torch_legacy", "a pickle, as torch.save wrote it before PyTorch 1.6",
                  "convert it to safetensors, which `format_only` does"},
    ForeignFormat{"gguf", "a GGUF file", "get the same weights as safetensors"},
};

void refuse_foreign_format(std::span<const std::byte> bytes, const std::string& subject) {
  const std::string_view format = sniff_format(bytes);
  if (format == "empty") {
    throw Error(ErrorCode::empty, "the file is empty", subject, kDownloadAgain);
  }
  const auto found = std::ranges::find(kForeignFormats, format, &ForeignFormat::name);
  if (found == kForeignFormats.end()) return;
  throw Error(ErrorCode::unsupported_format,
              "expected a safetensors file, found " + std::string(found->what), subject,
              found->hint);
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& subject) {
  if (bytes.size() < kLengthBytes) {
    fail("expected at least 8 bytes, which say the header's length, found " +
             std::to_string(bytes.size()),
         subject, kDownloadAgain);
  }
  const std::uint64_t length = read_length(bytes);
  if (length > kMaxHeaderBytes) {
    fail("neither a safetensors nor a torch file: a header of " + std::to_string(length) +
             " bytes is more than the format's limit of " + std::to_string(kMaxHeaderBytes),
         subject);
  }
  const std::size_t available = bytes.size() - kLengthBytes;
  if (length > available) {
    fail("the header takes " + std::to_string(length) + " bytes, the file has " +
             std::to_string(available) + " after the header's length",
         subject, kDownloadAgain);
  }
  const std::string_view text = text_of(bytes.subspan(kLengthBytes, length));
  if (!text.starts_with('{')) {
    fail("the header begins with " + (text.empty() ? "nothing" : quote(text.substr(0, 1))) +
             ", expected '{'",
         subject);
  }
  return text;
}

/// The tensors must tile the buffer: `previous_end` is where the one before `entry` ended.
void check_place(const TensorEntry& entry, std::uint64_t previous_end, std::size_t buffer_size,
                 const std::string& subject) {
  const auto refuse = [&](const std::string& what, std::string hint = {}) {
    fail("tensor " + quote(entry.name) + ": " + what, subject, std::move(hint));
  };
  const auto offsets = [&] {
    return "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
  };
  const auto type = [&] {
    return shape_text(entry.shape) + " of " + std::string(name(entry.dtype));
  };

  if (entry.end < entry.begin) refuse(offsets() + " end before they begin");
  const std::uint64_t length = entry.end - entry.begin;
  const std::optional<std::uint64_t> size = byte_size(entry.shape, entry.dtype);
  if (!size) refuse("the size of " + type() + " overflows");
  if (*size != length) {
    refuse(type() + " takes " + std::to_string(*size) + " bytes, " + offsets() + " hold " +
           std::to_string(length));
  }
  const auto expected = [&] { return ": expected to begin at " + std::to_string(previous_end); };
  if (entry.begin > previous_end) refuse(offsets() + " leave a hole" + expected());
  if (entry.begin < previous_end) refuse(offsets() + " overlap the tensor before" + expected());
  if (entry.end > buffer_size) {
    refuse(offsets() + " end outside the file, whose buffer has " + std::to_string(buffer_size) +
               " bytes",
           kDownloadAgain);
  }
}

}  // namespace

std::string_view name(Dtype dtype) { return row_of(dtype).name; }
std::size_t size_of(Dtype dtype) { return row_of(dtype).size; }

std::optional<Dtype> find_dtype(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &DtypeRow::name);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string_view sniff_format(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  if (text.empty()) return "empty";
  // First, because a length is any eight bytes: a header of 640 begins like a pickle (80 02), one
  // of 67,324,752 like a zip. Neither of the two has a '{' after a length within the limit.
  if (text.size() > kLengthBytes && text[kLengthBytes] == '{' &&
      read_length(bytes) <= kMaxHeaderBytes) {
    return "safetensors";
  }
  if (text.starts_with("version https://git-lfs")) return "git_lfs_pointer";
  if (text.starts_with("PK\x03\x04")) return "torch_zip";
  // Protocol 2 is what torch.save asks for by default; its callers may ask for up to 5.
  if (text.size() >= 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) return "torch_legacy";
  if (text.starts_with("GGUF")) return "gguf";
  return looks_like_html(text) ? "html" : "unknown";
}

SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& subject) {
  refuse_foreign_format(bytes, subject);
  const std::string_view text = header_text(bytes, subject);
  SafetensorsHeader header = read_header(text, subject);
  // JSON would allow line ends, too; the format pads with spaces only.
  if (text[text.find_last_not_of(' ')] != '}') {
    fail("the header ends with " + quote(text.substr(text.find_last_of('}') + 1)) +
             ", expected '}' and then spaces only",
         subject);
  }
  std::ranges::stable_sort(header.entries, {}, [](const TensorEntry& entry) {
    return std::tuple(entry.begin, entry.end);  // an empty tensor before the one it touches
  });

  const std::span<const std::byte> buffer = bytes.subspan(kLengthBytes + text.size());
  SafetensorsIndex index{.metadata = std::move(header.metadata), .tensors = {}};
  index.tensors.reserve(header.entries.size());
  std::uint64_t previous_end = 0;
  for (TensorEntry& entry : header.entries) {
    check_place(entry, previous_end, buffer.size(), subject);
    previous_end = entry.end;
    index.tensors.push_back({.name = std::move(entry.name),
                             .dtype = entry.dtype,
                             .shape = std::move(entry.shape),
                             .data = buffer.subspan(entry.begin, entry.end - entry.begin)});
  }
  if (previous_end != buffer.size()) {
    fail(std::to_string(buffer.size() - previous_end) +
             " bytes after the last tensor, which ends at " + std::to_string(previous_end) +
             " of " + std::to_string(buffer.size()),
         subject);
  }
  return index;
}

}  // namespace hydrascope::checkpoint
