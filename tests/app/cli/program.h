// Runs the built program as a shell would and collects what it says.
#pragma once

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <concepts>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace hydrascope::testing {

struct Outcome {
  int code = -1;  ///< exit code, or 128 + signal
  std::string out;
  std::string err;

  [[nodiscard]] std::vector<std::string> lines() const {
    std::istringstream stream(out);
    std::vector<std::string> result;
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
  [[nodiscard]] std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> result;
    for (const std::string& line : lines()) result.push_back(nlohmann::json::parse(line));
    return result;
  }
};

/// The words of a command line, written as one types them: a literal is split at its blanks, any
/// other string and a path are a word each.
struct Words : std::vector<std::string> {
  struct Part {
    template <std::size_t N>
    Part(const char (&literal)[N]) {
      std::istringstream stream(literal);
      for (std::string word; stream >> word;) words.push_back(word);
    }
    template <class Text>
    requires std::convertible_to<Text, std::string> &&
        (!std::is_array_v<std::remove_cvref_t<Text>>)Part(const Text& word)
        : words{std::string(word)} {}
    std::vector<std::string> words;
  };
  Words() = default;
  Words(std::vector<std::string> words) : vector(std::move(words)) {}
  Words(std::initializer_list<Part> parts) {
    for (const Part& part : parts) *this += part.words;
  }
  Words& operator+=(const std::vector<std::string>& more) {
    insert(end(), more.begin(), more.end());
    return *this;
  }
  friend Words operator+(Words first, const std::vector<std::string>& more) {
    return first += more;
  }
};

struct RunOptions {
  std::string standard_input = {};
  std::filesystem::path working_directory = {};
  std::map<std::string, std::string> environment = {};
};

/// A child process with its three streams.
class Program {
 public:
  Program(const Words& arguments, const RunOptions& options) {
    int in[2];
    if (pipe2(in, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    const std::filesystem::path out_file = folder_.path() / "out";
    const std::filesystem::path err_file = folder_.path() / "err";
    for (const auto& file : {out_file, err_file}) std::ofstream{file};  // there from the beginning
    child_ = fork();
    if (child_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(open(out_file.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      dup2(open(err_file.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0)
        _exit(126);
      for (const auto& [key, value] : options.environment) setenv(key.c_str(), value.c_str(), 1);
      std::vector<std::string> words = arguments;
      words.insert(words.begin(), HYDRASCOPE_PROGRAM);
      std::vector<char*> pointers;
      for (std::string& word : words) pointers.push_back(word.data());
      pointers.push_back(nullptr);
      execv(HYDRASCOPE_PROGRAM, pointers.data());
      _exit(127);
    }
    close(in[0]);
    input_ = in[1];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { close_input(); }

  void type(const std::string& text) {
    if (write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("write");
  }
  void close_input() {
    if (input_ >= 0) close(input_);
    input_ = -1;
  }
  void signal(int number) { kill(child_, number); }
  [[nodiscard]] pid_t pid() const { return child_; }
  [[nodiscard]] std::string output_so_far() const { return read_bytes(folder_.path() / "out"); }
  [[nodiscard]] std::string errors_so_far() const { return read_bytes(folder_.path() / "err"); }

  /// Waits until `holds`, a minute at most; then the test fails.
  template <class Condition>
  static void wait_until(const std::string& what, Condition holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!holds()) {
      if (std::chrono::steady_clock::now() >= deadline)
        throw std::runtime_error("a minute is over without " + what);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  /// The same until the program has written `file`.
  static void wait_for(const std::filesystem::path& file) {
    wait_until(file.string(), [&] { return std::filesystem::exists(file); });
  }

  Outcome wait() {
    close_input();
    return wait_with_open_input();
  }
  /// Four minutes at most: ctest's limit is five, and says nothing of what hangs.
  Outcome wait_with_open_input() {
    int status = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(4);
    while (waitpid(child_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= deadline) {
        ADD_FAILURE() << "the program does not end; so far: " << output_so_far();
        kill(child_, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output_so_far(),
            errors_so_far()};
  }

 private:
  TemporaryFolder folder_;
  pid_t child_ = -1;
  int input_ = -1;
};

inline Outcome run(const Words& arguments, const RunOptions& options = {}) {
  // A program that reads no input may be gone before it is written.
  std::signal(SIGPIPE, SIG_IGN);
  Program program(arguments, options);
  if (!options.standard_input.empty()) program.type(options.standard_input);
  return program.wait();
}

/// The same of a program that must end with exit code 0.
inline Outcome run_well(const Words& arguments, const RunOptions& options = {}) {
  Outcome outcome = run(arguments, options);
  if (outcome.code != 0)
    throw std::runtime_error("exit code " + std::to_string(outcome.code) + ": " + outcome.err);
  return outcome;
}

/// That it ends with exit code `code`, and that standard error says all of `texts`.
inline void expect_error(int code, const std::vector<std::string>& texts, const Words& arguments,
                         const RunOptions& options = {}) {
  const Outcome outcome = run(arguments, options);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  for (const std::string& text : texts)
    EXPECT_NE(outcome.err.find(text), std::string::npos) << text << " in " << outcome.err;
}

/// Shape and values of a float32 .npy file, as `--save-logits` and `--save-input` write it.
struct Npy {
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  explicit Npy(const std::filesystem::path& file) {
    const std::string bytes = read_bytes(file);
    const auto header_size = static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(8)) |
                                                      static_cast<unsigned char>(bytes.at(9)) << 8);
    const std::string header = bytes.substr(10, header_size);
    std::string digits = header.substr(header.find("'shape': (") + 10);
    digits = digits.substr(0, digits.find(')'));
    std::istringstream stream(digits);
    for (std::string word; std::getline(stream, word, ',');) {
      if (word.find_first_of("0123456789") != std::string::npos) shape.push_back(std::stoll(word));
    }
    values.resize((bytes.size() - 10 - header_size) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + 10 + header_size, values.size() * sizeof(float));
  }
};

inline std::filesystem::path asset(const std::string& name) {
  return std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "assets" / name;
}

}  // namespace hydrascope::testing
