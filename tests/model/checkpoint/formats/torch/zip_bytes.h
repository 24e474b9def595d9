// Zip archives as strings, put together by hand so that tests can break one rule at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::testing {

inline std::string little(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

struct ZipPart {
  std::string name;
  std::string content{};
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

struct ZipOptions {
  bool zip64 = false;        ///< every size and offset in zip64 fields
  bool descriptors = false;  ///< sizes behind the content, as torch.save writes them
  std::string comment{};
};

inline std::string zip_of(const std::vector<ZipPart>& parts, const ZipOptions& options = {}) {
  std::string bytes;
  std::string directory;
  for (const ZipPart& part : parts) {
    const std::size_t offset = bytes.size();
    const std::size_t size = part.content.size();
    const auto flags = static_cast<std::uint16_t>(part.flags | (options.descriptors ? 8 : 0));
    const std::string kind = little(flags, 2) + little(part.method, 2) + little(0, 4);
    const std::string padding = "FB" + little(3, 2) + "ZZZ";
    const std::size_t local_size = options.descriptors ? 0 : size;
    bytes += "PK\x03\x04" + little(20, 2) + kind + little(0, 4) + little(local_size, 4) +
             little(local_size, 4) + little(part.name.size(), 2) + little(padding.size(), 2) +
             part.name + padding + part.content;
    if (options.descriptors)
      bytes += "PK\x07\x08" + little(0, 4) + little(size, 8) + little(size, 8);

    const std::string wide =
        little(1, 2) + little(24, 2) + little(size, 8) + little(size, 8) + little(offset, 8);
    const std::string extra = options.zip64 ? padding + wide : "";
    const auto narrow = [&](std::size_t value) {
      return little(options.zip64 ? 0xFFFFFFFF : value, 4);
    };
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + kind + little(0, 4) + narrow(size) +
                 narrow(size) + little(part.name.size(), 2) + little(extra.size(), 2) +
                 std::string(10, '\0') + narrow(offset) + part.name + extra;
  }
  const std::size_t start = bytes.size();
  bytes += directory;
  if (options.zip64) {
    const std::size_t end = bytes.size();
    bytes += "PK\x06\x06" + little(44, 8) + little(20, 2) + little(20, 2) + little(0, 8) +
             little(parts.size(), 8) + little(parts.size(), 8) + little(directory.size(), 8) +
             little(start, 8);
    bytes += "PK\x06\x07" + little(0, 4) + little(end, 8) + little(1, 4);
    bytes += "PK\x05\x06" + little(0, 4) + std::string(12, '\xFF');
  } else {
    bytes += "PK\x05\x06" + little(0, 4) + little(parts.size(), 2) + little(parts.size(), 2) +
             little(directory.size(), 4) + little(start, 4);
  }
  return bytes + little(options.comment.size(), 2) + options.comment;
}

}  // namespace hydrascope::testing
