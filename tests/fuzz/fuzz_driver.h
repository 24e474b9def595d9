// What fuzz targets share, and what the driver (fuzz_driver.cpp) wants of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

/// The target: anything but its return ends the program. libFuzzer calls it so, too.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hydrascope::fuzz {

/// An assertion that is there in every build.
void require(bool holds, const char* invariant);

/// Random changes of bytes, the same for the same seed with every standard library.
class Mutator {
 public:
  using ChangeNumber = std::function<void(Mutator&, std::string& bytes, std::size_t at)>;
  /// `tokens`: what random bytes would hardly ever build. `change_number`: changes a number that
  /// follows a position, however the format writes numbers.
  Mutator(std::uint64_t seed, std::vector<std::string> tokens, ChangeNumber change_number);

  /// From 0 to `bound` - 1.
  std::size_t below(std::size_t bound);
  /// One to four changes.
  void mutate(std::string& bytes);

 private:
  void mutate_once(std::string& bytes);

  std::mt19937_64 random_;
  std::vector<std::string> tokens_;
  ChangeNumber change_number_;
};

/// What a target gives to the driver.
struct Campaign {
  std::vector<std::string> valid;  ///< inputs that must be accepted
  std::function<bool(std::span<const std::byte>)> accepts;
  std::function<std::string()> next;
};
Campaign make_campaign(std::uint64_t seed);

}  // namespace hydrascope::fuzz
