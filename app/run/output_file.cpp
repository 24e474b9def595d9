#include "app/run/output_file.h"

#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "kernels/file_place.h"
#include "kernels/input_file.h"
#include "kernels/limits.h"
#include "model/checkpoint/formats/mapped_file.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/image/picture_formats.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <fcntl.h>
#include <fstream>
#include <ios>
#include <iostream>
#include <optional>
#include <poll.h>
#include <span>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace hydrascope::app {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

namespace {

constexpr int kPatience = 1000;  // milliseconds after a request to stop

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    if (!becomes_ready(descriptor, POLLOUT, kPatience)) return false;
    // A pipe that is ready has room for that much, and does not wait for more.
    const std::size_t size = std::min<std::size_t>(text.size(), PIPE_BUF);
    const ssize_t count = ::write(descriptor, text.data(), size);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// How many bytes of it are whole lines.
std::uintmax_t size_of_whole_lines(const fs::path& file) {
  const checkpoint::MappedFile mapped(file);
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()),
                              mapped.bytes().size());
  return text.rfind('\n') + 1;  // 0 without a line
}

constexpr std::string_view kTextMark = "# made by hydrascope\n";

/// The first columns of all tables in csv, and keys of all objects in JSON that have no schema.
constexpr std::string_view kFirstColumns[] = {"input,frame,time,width,height,model_height",
                                              "input,frame,time,rank,name,label,similarity",
                                              "input,frame,time,index,id,label,prob",
                                              "top1,top1_macro,top5,images,failed,model",
                                              "top1,top5,images,failed,model",
                                              "class,id,label,images,right,top1",
                                              "model,attention,layer,steps,map,measure",
                                              "layer,head,mechanism,entropy,entropy_share",
                                              "layer,mechanism",
                                              "model,attention,img_size,tokens,batch,precision",
                                              "name,dtype,shape,bytes",
                                              "version,build,commit,compiler,libtorch,decoder",
                                              "precision,pictures,top1_equal,largest_difference",
                                              "kind,name,summary,aliases",
                                              "model,file,arch,parameters,attention",
                                              "model,gflops_per_image",
                                              "mechanism,aliases,summary,citation,map",
                                              "memory,aliases,summary,citation",
                                              "rule,aliases,summary,citation",
                                              "index,id,label,scene",
                                              "key,values,default,meaning,commands"};

/// Whether an object that `text` begins with has these keys first.
bool begins_with_keys(std::string_view text, std::string_view keys) {
  std::size_t at = 0;
  while (!keys.empty()) {
    const std::string_view key = keys.substr(0, keys.find(','));
    const std::string quoted = '"' + std::string(key) + "\":";
    const std::size_t found = text.find(quoted, at);
    if (found == text.npos || (at == 0 && text.find_first_not_of("[{ \n") != found)) return false;
    at = found + quoted.size();
    keys.remove_prefix(std::min(key.size() + 1, keys.size()));
  }
  return true;
}

bool is_own_text(std::string_view head) {
  if (head == "[]\n" || head.starts_with(kTextMark) ||
      (head.starts_with("<!doctype html>") &&
       head.find("<meta name=\"generator\" content=\"hydrascope\"") != head.npos) ||
      head.find("\n<desc>hydrascope<") != head.npos)
    return true;
  const bool is_json = head.starts_with('{') || head.starts_with('[');
  const std::string_view rest = head.substr(std::min(head.find_first_not_of("[{ \n"), head.size()));
  const auto has_schema = [&](std::string_view schema) {
    return rest.starts_with(schema) &&
           ",}\n"sv.find(rest.substr(schema.size(), 1)) != std::string_view::npos;
  };
  if (is_json && (has_schema("\"schema\":1") || has_schema("\"schema\":2"))) return true;
  return std::ranges::any_of(kFirstColumns, [&](std::string_view names) {
    if (is_json) return begins_with_keys(head, names);
    return head.starts_with(names) && head.substr(names.size()).find_first_of(",\n") == 0;
  });
}

/// A line of metrics.jsonl, the configuration of an adapter, the first line beside a store's vectors.
bool is_own_companion(std::string_view head) {
  if (head.starts_with("{\"step\":") && begins_with_keys(head, "step,epoch"))
    return head.find("\"minutes\":") != head.npos || head.find("/lr\":") != head.npos ||
           head.find("\"images_per_second\":") != head.npos;
  return head.starts_with('{') &&
         (begins_with_keys(head, "model_sha256,attention") ||
          begins_with_keys(head, "peft_type,base_model_name_or_path,bias"));
}

bool are_own_tensors(const fs::path& file, FileKind kind) {
  try {
    const auto metadata = checkpoint::SafetensorsFile::open(file).metadata();
    const auto writer = metadata.find("created_by");
    if (kind == FileKind::random_weights)
      return writer != metadata.end() && writer->second.starts_with("hydrascope models create");
    return metadata.contains("hydrascope.store") == (kind == FileKind::store) &&
           (metadata.contains("training.step") ||
            (writer != metadata.end() && writer->second.starts_with("hydrascope")));
  } catch (const Error&) {
    return false;
  }
}

void refuse_part(const fs::path& part, FileKind kind, const std::string& place) {
  std::error_code ignored;
  if (kind != FileKind::any && fs::is_symlink(part, ignored))
    throw UsageError("would write through a link", part.string(), "remove the link");
  refuse_to_replace(part, kind, place);
}

/// The slot in which a stream keeps the address of its name.
int name_slot() {
  static const int slot = std::ios_base::xalloc();
  return slot;
}

/// `error` is errno, which may be of another call: the write that failed may be long ago.
std::string why_not_written(int error) {
  const std::string limit = hint_of_write(EFBIG);
  if (error == EFBIG && !limit.empty()) return limit;
  for (const int known : {EAGAIN, EDQUOT, EFBIG, EINTR, EIO, ENOSPC, EPIPE})
    if (error == known) return std::generic_category().message(error);
  return "is there space left on the disk?" + (limit.empty() ? "" : " " + limit);
}

}  // namespace

bool may_be_replaced(const fs::path& file, FileKind kind) {
  std::error_code ignored;
  if (kind == FileKind::any || !fs::is_regular_file(file, ignored) ||
      fs::file_size(file, ignored) == 0)
    return true;
  if (kind == FileKind::store || kind == FileKind::weights || kind == FileKind::random_weights)
    return are_own_tensors(file, kind);
  std::ifstream stream(file, std::ios::binary);
  std::string head(4096, '\0');
  stream.read(head.data(), std::ssize(head));
  head.resize(static_cast<std::size_t>(stream.gcount()));
  if (kind == FileKind::text || kind == FileKind::companion) {
    if (head.find_first_not_of(" \n") == head.npos)
      return fs::file_size(file, ignored) <= head.size();
    return kind == FileKind::text ? is_own_text(head) : is_own_companion(head);
  }
  if (kind == FileKind::array)
    return head.starts_with("\x93NUMPY") && head.find("{'fortran_order': False, 'descr'") == 10;
  std::string end(std::min<std::size_t>(64, head.size()), '\0');
  stream.clear();
  stream.seekg(-std::ssize(end), std::ios::end);
  stream.read(end.data(), std::ssize(end));
  const bool is_picture = image::format_of_bytes(std::as_bytes(std::span(head))) != nullptr;
  // The bytes of a file behind its mark: of PNG, of JPEG, of others.
  const std::size_t behind = head.starts_with("\x89PNG")    ? 16
                             : head.starts_with("\xFF\xD8") ? 2
                                                            : 0;
  constexpr std::string_view kMark = "hydrascope";
  return (is_picture || head.find("ftyp") == 4) && end.size() >= kMark.size() + behind &&
         end.compare(end.size() - behind - kMark.size(), kMark.size(), kMark) == 0;
}

void refuse_to_replace(const fs::path& file, FileKind kind, const std::string& place,
                       const std::string& hint) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) throw UsageError("expected a file, found a folder", place);
  if (!may_be_replaced(file, kind))
    throw UsageError("would replace a file that holds no results", place, hint);
}

int AtomicWrites::sync() {
  const bool is_written = write_all(descriptor_, view());
  str("");
  return is_written ? 0 : -1;
}

// The lock is the open description's, so that it ends with it; no program that is started keeps it.
FileLock::FileLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
    is_taken_ = errno == EWOULDBLOCK;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FileLock::is_of(const fs::path& path) const noexcept {
  struct stat locked {};
  struct stat named {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &locked) != 0) return true;
  return ::stat(path.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
         locked.st_ino == named.st_ino;
}

int FileLock::sync() const noexcept {
  if (descriptor_ < 0 || ::fsync(descriptor_) == 0) return 0;
  return errno == EINVAL ? 0 : errno;  // a file system without syncs
}

std::string text_for(const std::ostream& out, std::string text) {
  const auto* writes = dynamic_cast<const AtomicWrites*>(out.rdbuf());
  return writes != nullptr && writes->is_terminal() ? printable(text) : text;
}

void mark_text(std::ostream& out) {
  const bool is_of_file =
      dynamic_cast<std::ofstream*>(&out) != nullptr && out.pword(name_slot()) != nullptr;
  if (is_of_file && out.tellp() == std::streampos(0)) out << kTextMark;
}

void name_stream(std::ostream& out, const std::string& place) {
  out.pword(name_slot()) = const_cast<std::string*>(&place);
}

void flush_results(std::ostream& out) {
  if (out) errno = 0;
  out.flush();
  if (out) return;
  const int error = errno;
  const auto* const place = static_cast<const std::string*>(out.pword(name_slot()));
  // A stream that was closed can only be read (`guarded`).
  const bool is_closed =
      place == nullptr && (::fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY;
  throw Error(ErrorCode::unwritable, "not everything could be written",
              place == nullptr ? "standard output" : *place,
              is_closed ? "standard output is closed" : why_not_written(error));
}

bool is_standard_output(const std::string& output) {
  if (output.empty() || output == "-") return true;
  const auto stream = open_stream(output);
  return stream && stream->descriptor == STDOUT_FILENO;
}

bool is_stream(const std::string& output) {
  if (output.empty() || output == "-") return true;
  const auto stream = open_stream(output);
  return stream && stream->descriptor;
}

OutputFile::OutputFile(const std::string& output, std::string_view option, Start start,
                       FileKind kind)
    : place_(std::string(option) + " " + output),
      is_standard_output_(app::is_standard_output(output)) {
  if (is_standard_output_) return;
  const std::optional<OpenStream> stream = open_stream(output);
  if (stream && stream->descriptor) {
    // A program that is started inherits what closes with it as little as what is closed.
    const int number = *stream->descriptor;
    const int flags = ::fcntl(number, F_GETFD);
    if (flags == -1 || (flags & FD_CLOEXEC) != 0) fail("the descriptor is not open", 0);
    if ((::fcntl(number, F_GETFL) & O_ACCMODE) == O_RDONLY)
      fail("the descriptor is open for reading only", 0);
    open_descriptor(number);
    return;
  }
  std::error_code error;
  const fs::file_status status = fs::status(output, error);
  if (error == std::errc::filename_too_long) fail("the file cannot be written", error.value());
  if (fs::is_block_file(status)) fail("expected a file, found a disk", 0);
  // Another process's stream, a device, a pipe; a folder fails.
  if (stream || (fs::exists(status) && !fs::is_regular_file(status))) {
    constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    // A pipe that nobody reads is opened as soon as somebody does.
    while ((opened_ = ::open(output.c_str(), kFlags)) < 0 && errno == ENXIO &&
           fs::is_fifo(status) && !stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (opened_ < 0) fail("the file cannot be written", errno);
    open_descriptor(opened_);
    return;
  }
  target_ = end_of_links(output);  // a link stays one
  part_ = beside(target_, ".part");
  refuse_to_replace(target_, kind, place_);
  refuse_part(part_, kind, place_);
  if (fs::is_symlink(part_, error)) fs::remove(part_, error);
  open_part(start);
}

void OutputFile::open_descriptor(int descriptor) {
  atomic_writes_ = std::make_unique<AtomicWrites>(descriptor);
  file_ = std::make_unique<std::ostream>(atomic_writes_.get());
  if (!is_standard_output_) name_stream(*file_, place_);
}

void OutputFile::open_part(Start start) {
  // Whoever held the lock may have named the file in between, and then it is no longer the part.
  do {
    errno = 0;
    file_ = std::make_unique<std::ofstream>(part_, std::ios::binary | std::ios::app);
    if (!*file_) fail("the file cannot be written", errno);
    name_stream(*file_, place_);
    lock_ = std::make_unique<FileLock>(part_);
    if (lock_->is_taken()) {
      part_.clear();  // it is another's
      throw UsageError("another run is writing this file", place_,
                       "wait for its end, or give this one another file");
    }
  } while (!lock_->is_of(part_));
  std::error_code error;
  if (start == Start::anew) return cut(0);
  const bool is_copy = fs::file_size(part_, error) == 0 && fs::exists(target_, error);
  if (is_copy) fs::copy_file(target_, part_, fs::copy_options::overwrite_existing, error);
  if (error) fail("the file cannot be written", error.value());
  cut(size_of_whole_lines(part_));
  is_copy_ = is_copy;
}

void OutputFile::cut(std::uintmax_t size) {
  if (part_.empty()) return;
  is_copy_ = false;
  std::error_code error;
  fs::resize_file(part_, size, error);
  if (error) fail("the file cannot be written", error.value());
}

OutputFile::~OutputFile() {
  // A part that holds nothing of this run is of no use to a later one.
  std::error_code ignored;
  if (file_) file_->flush();
  if (opened_ >= 0) ::close(opened_);
  if (!part_.empty() && (is_copy_ || fs::file_size(part_, ignored) == 0) && !ignored)
    fs::remove(part_, ignored);
}

std::ostream& OutputFile::stream() noexcept { return file_ ? *file_ : std::cout; }

void OutputFile::fail(std::string_view what, int error) const {
  std::string text(what);
  if (error != 0) text += ": " + std::generic_category().message(error);
  throw Error(ErrorCode::unwritable, text, place_);
}

void OutputFile::close() {
  flush_results(stream());
  if (part_.empty()) return;
  if (const int error = lock_->sync(); error != 0) fail("the file cannot be synced", error);
  std::error_code error;
  fs::rename(part_, target_, error);
  if (error) fail("the file cannot be written", error.value());
  part_.clear();
}

void check_output_file(const std::string& file, std::string_view option, FileKind kind) {
  if (is_stream(file)) return OutputFile(file, option).close();
  const std::string place = std::string(option) + " " + file;
  const fs::path folder = fs::path(file).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    throw NotFound("no such folder: " + folder.string(), place);
  if (!fs::exists(file, ignored) && ignored == std::errc::filename_too_long)
    throw UsageError("the name is too long", place);
  refuse_to_replace(file, kind, place);
  if (kind == FileKind::text) refuse_part(beside(end_of_links(file), ".part"), kind, place);
}

}  // namespace hydrascope::app
