#include "app/model/hub_download.h"

#include "app/run/file_lock.h"
#include "app/run/own_program.h"
#include "app/run/usage_error.h"
#include "kernels/new_file.h"
#include "model/checkpoint/formats/sha256.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kHub = "https://huggingface.co";
constexpr std::int64_t kMostListingBytes = std::int64_t{16} << 20;
constexpr int kTries = 5;

struct HubFile {
  std::string name;
  std::int64_t size = 0;
  std::string blob;  ///< the name in blobs/: the SHA-256 of an LFS file, Git's digest of others
  bool is_large = false;  ///< Git LFS keeps it
};

struct Listing {
  std::string commit;
  std::vector<HubFile> files;
};

[[noreturn]] void give_up(const std::string& what, const std::string& subject,
                          const std::string& hint = "") {
  throw Error(ErrorCode::failed, what, subject, hint);
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::unwritable, "the folder cannot be created: " + error.message(),
                folder.string());
}

bool is_on_this_machine(std::string_view hub) {
  for (const std::string_view host : {"http://localhost", "http://127.0.0.1", "http://[::1]"})
    if (hub.starts_with(host) &&
        (hub.size() == host.size() || hub[host.size()] == ':' || hub[host.size()] == '/'))
      return true;
  return false;
}

bool is_hexadecimal(std::string_view text, std::size_t length) {
  return text.size() == length && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// ---- curl ---------------------------------------------------------------------------------------

struct Transfer {
  int code = 0;  ///< curl's exit code, 127 where there is none
  int http = 0;  ///< the last answer's status
};

/// Seconds without a byte after which a transfer ends; the variable is that of Hugging Face's tools.
std::string patience() {
  const char* told = std::getenv("HF_HUB_DOWNLOAD_TIMEOUT");
  int seconds = 0;
  if (told == nullptr ||
      std::from_chars(told, told + std::strlen(told), seconds).ec != std::errc() || seconds < 1)
    seconds = 30;
  return std::to_string(seconds);
}

/// Fetches `url` into `file`, behind what that holds; at most `most_bytes` get there.
Transfer run_curl(const std::string& url, const fs::path& file, std::int64_t most_bytes,
                  bool shows_progress) {
  const std::string protocols = is_on_this_machine(url) ? "=http,https" : "=https";
  std::vector<std::string> words{"curl",
                                 "-q",
                                 "--globoff",
                                 "--fail",
                                 "--location",
                                 "--max-redirs",
                                 "5",
                                 "--proto",
                                 protocols,
                                 "--proto-redir",
                                 protocols,
                                 "--continue-at",
                                 "-",
                                 "--connect-timeout",
                                 "20",
                                 "--speed-limit",
                                 "1",
                                 "--speed-time",
                                 patience(),
                                 "--write-out",
                                 "%{http_code}",
                                 "--output",
                                 file.string(),
                                 shows_progress ? "--progress-bar" : "--silent",
                                 "--url",
                                 url};
  const std::vector<char*> arguments = exec_words(words);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) give_up(std::strerror(errno), "curl");
  const pid_t child = ::fork();
  if (child == 0) {
    // Only what is safe between fork and exec. No transfer goes on behind a killed program.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(pipe[1], STDOUT_FILENO);
    const rlimit limit{static_cast<rlim_t>(most_bytes), static_cast<rlim_t>(most_bytes)};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    ::execvp(arguments[0], arguments.data());
    constexpr int kNotStarted = 127;
    ::_exit(kNotStarted);
  }
  ::close(pipe[1]);
  if (child < 0) {
    ::close(pipe[0]);
    give_up(std::strerror(errno), "curl");
  }
  std::array<char, 16> status{};
  std::size_t length = 0;
  for (ssize_t got = 1; got > 0 && length < status.size();) {
    got = ::read(pipe[0], status.data() + length, status.size() - length);
    if (got > 0) length += static_cast<std::size_t>(got);
  }
  ::close(pipe[0]);
  int ended = 0;
  while (::waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(ended) && WTERMSIG(ended) == SIGINT) ::raise(SIGINT);  // Ctrl-C is for both
  constexpr int kSignal = 128;
  Transfer transfer{WIFEXITED(ended) ? WEXITSTATUS(ended) : kSignal + WTERMSIG(ended)};
  std::from_chars(status.data(), status.data() + length, transfer.http);
  return transfer;
}

bool may_get_better(const Transfer& transfer) {
  constexpr std::array kPassing{6, 7, 18, 28, 35, 52, 55, 56, 92};  // of `man curl`: the network's
  constexpr int kHttpError = 22;
  if (transfer.code == kHttpError)
    return transfer.http >= 500 || transfer.http == 408 || transfer.http == 429;
  return std::ranges::find(kPassing, transfer.code) != kPassing.end();
}

/// Whether the hub does not send what is behind the part that is there.
bool refuses_ranges(const Transfer& transfer) {
  constexpr int kNoRanges = 33;
  constexpr int kNotSatisfiable = 416;
  return transfer.code == kNoRanges || transfer.http == kNotSatisfiable;
}

std::string reason(const Transfer& transfer) {
  switch (transfer.code) {
    case 0:
    case 18: return "the hub ends its answer early";
    case 1: return "the hub leads to an address that is not https";
    case 6:
    case 7: return "the hub cannot be reached";
    case 22: return "the hub answers with status " + std::to_string(transfer.http);
    case 23:
      return "the answer cannot be written: is it larger than the hub said, or the disk full?";
    case 28: return "the hub is silent";
    case 47: return "the hub leads from one address to the next, more than 5 times";
    case 60: return "the hub's certificate is not trusted";
    case 127: return "the command `curl` is missing";
    default: return "curl ended with code " + std::to_string(transfer.code);
  }
}

std::int64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

/// `url` into `file` until `is_whole` says so; what is there is gone on with.
template <class IsWhole>
void fetch(const std::string& url, const fs::path& file, std::int64_t most_bytes,
           bool shows_progress, IsWhole is_whole) {
  for (int i = 0;; ++i) {
    const bool is_resumed = size_of(file) > 0;
    const Transfer transfer = run_curl(url, file, most_bytes, shows_progress);
    if (transfer.code == 0 && is_whole(is_resumed)) return;
    const bool starts_anew = refuses_ranges(transfer);
    std::error_code ignored;
    if (starts_anew) fs::resize_file(file, 0, ignored);
    if (i + 1 == kTries || !(transfer.code == 0 || starts_anew || may_get_better(transfer))) {
      const bool wants_login = transfer.http == 401 || transfer.http == 403;
      give_up(reason(transfer), url, wants_login ? "`hf download` fetches what needs a login" : "");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(250 * i));
  }
}

// ---- what the hub has ---------------------------------------------------------------------------

/// Names lead nowhere else: a hub that lists others is not trusted with anything.
void check_name(const std::string& name, const std::string& hub) {
  const fs::path path(name);
  const bool leads_away =
      name.empty() || path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end() ||
      std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == '\\'; });
  if (leads_away) give_up("the hub lists a file whose name leads out of its folder", hub);
}

/// `form` has zeros for digits.
bool is_shard(std::string_view name, std::string_view form) {
  return name.size() == form.size() && std::ranges::equal(name, form, [](char c, char of_form) {
           return of_form == '0' ? c >= '0' && c <= '9' : c == of_form;
         });
}

/// The files that `-m` reads: of several forms of the weights safetensors.
std::vector<HubFile> wanted_of(const std::vector<HubFile>& files) {
  constexpr std::array<std::string_view, 2> kSettings{"config.json", "preprocessor_config.json"};
  std::vector<HubFile> settings;
  std::vector<HubFile> whole;
  std::vector<HubFile> shards;
  std::vector<HubFile> pickles;
  std::vector<HubFile> pickle_shards;
  for (const HubFile& file : files) {
    if (std::ranges::find(kSettings, file.name) != kSettings.end()) settings.push_back(file);
    if (file.name == "model.safetensors") whole.push_back(file);
    if (file.name == "model.safetensors.index.json" ||
        is_shard(file.name, "model-00000-of-00000.safetensors"))
      shards.push_back(file);
    if (file.name == "pytorch_model.bin") pickles.push_back(file);
    if (file.name == "pytorch_model.bin.index.json" ||
        is_shard(file.name, "pytorch_model-00000-of-00000.bin"))
      pickle_shards.push_back(file);
  }
  const std::vector<HubFile>& weights = !whole.empty()     ? whole
                                        : !shards.empty()  ? shards
                                        : !pickles.empty() ? pickles
                                                           : pickle_shards;
  if (weights.empty()) return {};
  settings.insert(settings.end(), weights.begin(), weights.end());
  return settings;
}

/// Throws Error(failed) for what no hub says: names, sizes and digests become files here.
Listing parse_listing(const std::string& text, const std::string& url) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto text_of = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  constexpr std::size_t kGitDigits = 40;
  constexpr std::size_t kShaDigits = 64;
  Listing listing;
  if (json.is_object()) listing.commit = text_of(json, "sha");
  if (!is_hexadecimal(listing.commit, kGitDigits) || !json.contains("siblings") ||
      !json["siblings"].is_array())
    give_up("the answer is no listing of a model's files", url);
  for (const Json& item : json["siblings"]) {
    if (!item.is_object()) give_up("the answer is no listing of a model's files", url);
    HubFile file{text_of(item, "rfilename"), 0, text_of(item, "blobId"), item.contains("lfs")};
    check_name(file.name, url);
    const Json& sized = file.is_large ? item["lfs"] : item;
    if (file.is_large) file.blob = sized.is_object() ? text_of(sized, "sha256") : "";
    const bool has_size =
        sized.is_object() && sized.contains("size") && sized["size"].is_number_unsigned();
    if (!has_size || !is_hexadecimal(file.blob, file.is_large ? kShaDigits : kGitDigits))
      give_up("the hub lists no size or digest of " + file.name.substr(0, 60), url);
    file.size = static_cast<std::int64_t>(sized["size"].get<std::uint64_t>() & INT64_MAX);
    listing.files.push_back(std::move(file));
  }
  return listing;
}

std::string escaped(std::string_view revision) {
  std::string text;
  for (const char c : revision) text += c == '/' ? "%2F" : std::string(1, c);
  return text;
}

Listing list_files(const HubName& name, const std::string& revision, const std::string& hub,
                   const fs::path& folder) {
  const std::string url =
      hub + "/api/models/" + name.repository + "/revision/" + escaped(revision) + "?blobs=true";
  const PendingFile answer(folder / "listing.json");
  std::string text;
  fetch(url, answer.path(), kMostListingBytes, false, [&](bool) {
    std::ifstream stream(answer.path(), std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(stream), {});
    return true;
  });
  return parse_listing(text, url);
}

// ---- the cache ----------------------------------------------------------------------------------

void fetch_blob(const HubFile& file, const std::string& url, const fs::path& blob,
                const Console& console) {
  std::error_code ignored;
  if (fs::exists(blob, ignored)) return;
  const fs::path part = blob.string() + ".incomplete";
  if (size_of(part) > file.size) fs::remove(part, ignored);
  std::ofstream{part, std::ios::app};  // a file of no bytes is there, too
  console.note("fetching " + file.name + ", " + std::to_string(file.size) + " bytes");
  const bool shows_progress = console.progress && !console.quiet && ::isatty(STDERR_FILENO) == 1;
  const auto is_whole = [&](bool is_resumed) {
    if (size_of(part) != file.size) return false;
    if (!file.is_large || checkpoint::sha256_of_file(part) == file.blob) return true;
    fs::remove(part);
    if (!is_resumed) give_up("what the hub sends has another SHA-256 than it lists", url);
    return false;
  };
  if (!is_whole(true)) fetch(url, part, file.size, shows_progress, is_whole);
  if (const int error = FileLock(part).sync(); error != 0)
    throw Error(ErrorCode::unwritable, std::generic_category().message(error), part.string());
  fs::rename(part, blob, ignored);
  if (ignored) throw Error(ErrorCode::unwritable, ignored.message(), blob.string());
}

/// snapshots/COMMIT/NAME -> ../../blobs/DIGEST.
void point_to(const fs::path& blob, const fs::path& file) {
  std::error_code error;
  const fs::path fresh = beside(file, ".incomplete");
  fs::remove(fresh, error);
  fs::create_symlink(fs::path("../../blobs") / blob.filename(), fresh, error);
  if (!error) fs::rename(fresh, file, error);
  if (error) throw Error(ErrorCode::unwritable, error.message(), file.string());
}

}  // namespace

std::string hub_address(const std::string& asked) {
  const char* endpoint = std::getenv("HF_ENDPOINT");
  std::string hub = !asked.empty()                             ? asked
                    : endpoint != nullptr && *endpoint != '\0' ? endpoint
                                                               : kHub;
  while (hub.ends_with('/')) hub.pop_back();
  if (!hub.starts_with("https://") && !is_on_this_machine(hub))
    throw UsageError("a hub's address begins with https://", hub,
                     "http is for hubs on this machine: http://127.0.0.1:8000");
  return hub;
}

fs::path download_model(const HubName& name, const std::string& hub, const Console& console) {
  if (const char* offline = std::getenv("HF_HUB_OFFLINE");
      offline != nullptr && std::string_view(offline) == "1")
    throw UsageError("HF_HUB_OFFLINE=1 forbids downloads", name.repository);
  const fs::path repository = repository_folder(name);
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  make_folders(repository / "blobs");
  const Listing listing = list_files(name, revision, hub, repository);
  const std::vector<HubFile> wanted = wanted_of(listing.files);
  if (wanted.empty()) give_up("the hub has no weights in this repository", name.repository);
  const fs::path snapshot = repository / "snapshots" / listing.commit;
  make_folders(snapshot);
  for (const HubFile& file : wanted) {
    const fs::path blob = repository / "blobs" / file.blob;
    const fs::path lock =
        hub_cache_folder() / ".locks" / repository.filename() / (file.blob + ".lock");
    const std::string url =
        hub + "/" + name.repository + "/resolve/" + listing.commit + "/" + file.name;
    make_folders(lock.parent_path());
    if (!std::ofstream{lock, std::ios::app})
      throw Error(ErrorCode::unwritable, std::strerror(errno), lock.string());
    FileLock held(lock);  // as Hugging Face's tools do
    if (held.is_taken()) {
      console.note("note: another process is fetching the file; waiting for it");
      held.wait();
    }
    fetch_blob(file, url, blob, console);
    point_to(blob, snapshot / file.name);
  }
  if (revision != listing.commit) {
    const fs::path reference = repository / "refs" / revision;
    make_folders(reference.parent_path());
    NewFile file(reference);
    file.write(std::as_bytes(std::span(listing.commit)));
    file.commit(/*sync_name=*/true);
  }
  return snapshot;
}

}  // namespace hydrascope::app
