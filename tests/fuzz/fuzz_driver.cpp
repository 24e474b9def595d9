// Runs a fuzz target without libFuzzer, on valid inputs that are mutated at random:
//
//     TARGET [SECONDS [SEED]]   by default HYDRASCOPE_FUZZ_SECONDS, or 20, and a seed from the clock
//     TARGET --replay FILE      one input
//
// The seed is printed first: the same one gives the same inputs in the same order. The input that
// ends a run is left in TARGET.failed.
#include "tests/fuzz/fuzz_driver.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <unistd.h>
#include <utility>

// Findings of sanitizers end the program by SIGABRT, too, so that the input is kept.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace hydrascope::fuzz {

void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "broken invariant: %s\n", invariant);
  std::abort();
}

Mutator::Mutator(std::uint64_t seed, std::vector<std::string> tokens, ChangeNumber change_number)
    : random_(seed), tokens_(std::move(tokens)), change_number_(std::move(change_number)) {}

std::size_t Mutator::below(std::size_t bound) {
  // Not a distribution of the library: theirs may differ between standard libraries.
  return bound == 0 ? 0 : static_cast<std::size_t>(random_() % bound);
}

void Mutator::mutate(std::string& bytes) {
  for (std::size_t left = 1 + below(4); left > 0; --left) mutate_once(bytes);
}

void Mutator::mutate_once(std::string& bytes) {
  const std::size_t at = below(bytes.size() + 1);
  const std::size_t count = below(std::min<std::size_t>(bytes.size() - at, 40) + 1);
  const std::string& token = tokens_[below(tokens_.size())];
  switch (below(8)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(below(256));
      break;
    case 2: bytes.erase(at, count); break;
    case 3: bytes.insert(below(bytes.size() + 1), bytes.substr(at, count)); break;
    case 4: bytes.insert(at, token); break;
    case 5: bytes.replace(at, std::min(count, token.size()), token); break;
    case 6: change_number_(*this, bytes, at); break;
    default:
      if (below(4) == 0) bytes.resize(at);
      break;
  }
}

namespace {

std::span<const std::uint8_t> g_input;  ///< what is tried right now
std::string g_failed_file;

extern "C" void keep_input(int) {
  const int file = ::open(g_failed_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0 && ::write(file, g_input.data(), g_input.size()) >= 0)
    std::fprintf(stderr, "the input is in %s\n", g_failed_file.c_str());
  std::signal(SIGABRT, SIG_DFL);
}

/// At the end of its own allocation, so that AddressSanitizer sees the first byte read beyond it.
bool try_input(const std::string& input, const Campaign& campaign) {
  const auto copy = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), copy.get());
  g_input = {copy.get(), input.size()};
  LLVMFuzzerTestOneInput(copy.get(), input.size());
  return campaign.accepts(std::as_bytes(g_input));
}

int replay(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "error: %s cannot be read\n", name.c_str());
    return 1;
  }
  const std::string input{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::puts(try_input(input, make_campaign(0)) ? "accepted" : "refused");
  return 0;
}

int fuzz(double seconds, std::uint64_t seed) {
  const Campaign campaign = make_campaign(seed);
  for (const std::string& input : campaign.valid)
    require(try_input(input, campaign), "valid inputs are accepted");
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t tried = 0;
  std::uint64_t accepted = 0;
  while (std::chrono::steady_clock::now() < end) {
    constexpr int kBetweenClocks = 100;
    for (int i = 0; i < kBetweenClocks; ++i, ++tried)
      accepted += try_input(campaign.next(), campaign) ? 1 : 0;
  }
  std::printf("%llu inputs, %llu of them accepted\n", static_cast<unsigned long long>(tried),
              static_cast<unsigned long long>(accepted));
  // A fuzzer whose inputs are all refused, or all accepted, tests nothing.
  require(tried < 1000 || (accepted > 0 && accepted < tried), "inputs differ");
  return 0;
}

}  // namespace
}  // namespace hydrascope::fuzz

int main(int argc, char** argv) {
  using namespace hydrascope::fuzz;
  const std::vector<std::string> words(argv + 1, argv + argc);
  g_failed_file = std::filesystem::path(argv[0]).filename().string() + ".failed";
  std::signal(SIGABRT, keep_input);
  if (words.size() == 2 && words[0] == "--replay") return replay(words[1]);
  const char* told = std::getenv("HYDRASCOPE_FUZZ_SECONDS");
  const std::string seconds = !words.empty() ? words[0] : told != nullptr ? told : "20";
  const std::string clock =
      std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  const std::string seed = words.size() > 1 ? words[1] : clock;
  std::printf("%s %s %s\n", argv[0], seconds.c_str(), seed.c_str());
  std::fflush(stdout);  // whatever comes, the seed is known
  return fuzz(std::strtod(seconds.c_str(), nullptr), std::strtoull(seed.c_str(), nullptr, 10));
}
