#include "model/training/log/event_file.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <concepts>
#include <iterator>
#include <optional>
#include <system_error>
#include <unistd.h>

namespace hydrascope::model::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = "events.out.tfevents.";
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kHeaderBytes = kLengthBytes + kCrcBytes;

/// A field's key: its number in the message and how it is laid out.
enum Layout : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr char key(unsigned field, Layout layout) { return static_cast<char>(field << 3 | layout); }

constexpr char kWallTime = key(1, kFixed64);
constexpr char kStep = key(2, kVarint);
constexpr char kFileVersion = key(3, kBytes);
constexpr char kSummary = key(5, kBytes);
constexpr char kSummaryValue = key(1, kBytes);
constexpr char kValueTag = key(1, kBytes);
constexpr char kSimpleValue = key(2, kFixed32);

template <std::unsigned_integral Integer>
void append_fixed(std::string& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

template <std::unsigned_integral Integer>
Integer read_fixed(std::string_view bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |=
        static_cast<Integer>(static_cast<Integer>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  return value;
}

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
}

void append_bytes(std::string& message, char field, std::string_view bytes) {
  message += field;
  append_varint(message, bytes.size());
  message += bytes;
}

std::string begin_event(double wall_time) {
  std::string event(1, kWallTime);
  append_fixed(event, std::bit_cast<std::uint64_t>(wall_time));
  return event;
}

/// The step of an event that `scalars_event` wrote.
std::optional<std::int64_t> step_of(std::string_view event) {
  constexpr std::size_t kStepAt = 1 + sizeof(double);
  if (event.size() <= kStepAt || event[kStepAt] != kStep) return std::nullopt;
  std::uint64_t step = 0;
  unsigned shift = 0;
  for (std::size_t i = kStepAt + 1; i < event.size() && shift < 64; ++i, shift += 7) {
    const auto byte = static_cast<unsigned char>(event[i]);
    step |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return static_cast<std::int64_t>(step);
  }
  return std::nullopt;
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

/// How many of the first bytes are whole records of steps up to `last_step`.
std::size_t kept_bytes(std::string_view file, std::int64_t last_step) {
  std::size_t kept = 0;
  while (file.size() - kept >= kHeaderBytes) {
    const std::string_view rest = file.substr(kept);
    const auto length = read_fixed<std::uint64_t>(rest);
    if (read_fixed<std::uint32_t>(rest.substr(kLengthBytes)) !=
            masked_crc(rest.substr(0, kLengthBytes)) ||
        rest.size() - kHeaderBytes < kCrcBytes || length > rest.size() - kHeaderBytes - kCrcBytes)
      break;
    const std::string_view event = rest.substr(kHeaderBytes, length);
    if (step_of(event).value_or(last_step) > last_step) break;
    kept += kHeaderBytes + length + kCrcBytes;
  }
  return kept;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

/// In the order of their times, which their names tell.
std::vector<fs::path> event_files(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw Error(ErrorCode::failed, "is no folder", folder.native());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().native().starts_with(kNamePrefix)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      std::uint32_t remainder = i;
      for (int bit = 0; bit < 8; ++bit)
        remainder = remainder >> 1 ^ (remainder & 1 ? 0x82F63B78U : 0U);
      table[i] = remainder;
    }
    return table;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  append_fixed(record, std::uint64_t{data.size()});
  append_fixed(record, masked_crc(record));
  record += data;
  append_fixed(record, masked_crc(data));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = begin_event(wall_time);
  append_bytes(event, kFileVersion, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, number] : scalars) {
    std::string value;
    append_bytes(value, kValueTag, name);
    value += kSimpleValue;
    append_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    append_bytes(summary, kSummaryValue, value);
  }
  std::string event = begin_event(wall_time);
  event += kStep;
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, kSummary, summary);
  return event;
}

std::string keep_records(const std::filesystem::path& file,
                         const std::function<std::size_t(std::string_view)>& kept) {
  if (!std::filesystem::exists(file)) return {};
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    if (in.bad() || !in.is_open()) throw Error(ErrorCode::failed, "cannot be read", file.native());
  }
  const std::size_t size = kept(bytes);
  if (size == bytes.size()) return bytes;
  std::error_code error;
  std::filesystem::resize_file(file, size, error);
  if (error) {
    throw Error(ErrorCode::failed,
                "cannot be cut to its first " + std::to_string(size) + " bytes: " + error.message(),
                file.native());
  }
  bytes.resize(size);
  return bytes;
}

EventFile::EventFile(const fs::path& folder, std::int64_t resumed_step) {
  for (const fs::path& file : event_files(folder)) {
    keep_records(file, [&](std::string_view bytes) { return kept_bytes(bytes, resumed_step); });
    path_ = file;
  }
  const double now = seconds_since_1970();
  if (path_.empty()) {
    path_ = folder / (std::string(kNamePrefix) + std::to_string(static_cast<std::int64_t>(now)) +
                      "." + host());
  }
  const bool is_new = !fs::exists(path_) || fs::file_size(path_) == 0;
  file_.open(path_, std::ios::binary | std::ios::app);
  if (is_new) write(version_event(now));
}

void EventFile::add(std::int64_t step, const Scalars& scalars) {
  write(scalars_event(seconds_since_1970(), step, scalars));
}

void EventFile::write(std::string_view event) {
  file_ << tfrecord(event) << std::flush;
  if (!file_) throw Error(ErrorCode::failed, "cannot be written", path_.native());
}

}  // namespace hydrascope::model::training
