#include "kernels/error.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_machine.h"
#include "model/checkpoint/formats/torch/torch_container.h"
#include "model/checkpoint/formats/torch/zip_archive.h"

#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

[[noreturn]] void refuse_zip(const std::string& what, const std::string& subject,
                             std::string hint = {}) {
  throw Error(ErrorCode::unsupported_format, what, subject, std::move(hint));
}

/// Throws the error for an archive without a pickle.
[[noreturn]] void refuse_archive(const ZipArchive& archive, const std::string& subject) {
  for (const auto& [name, entry] : archive.entries()) {
    if (name.ends_with(".npy"))
      refuse_zip("expected a file of torch.save, found an archive of NumPy arrays (.npz)", subject,
                 "timm reads those of Google's models in Python: model.load_pretrained(FILE), then "
                 "torch.save(model.state_dict(), \"weights.pth\")");
  }
  refuse_zip("expected a file of torch.save, found a zip archive without a data.pkl", subject,
             "if it holds weights, unpack it and name them");
}

/// "NAME/": every entry lies in one folder, mostly named like the file.
std::string find_folder(const ZipArchive& archive, const std::string& subject) {
  constexpr std::string_view kPickle = "/data.pkl";
  std::string folder;
  for (const auto& [name, entry] : archive.entries()) {
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    if (!folder.empty()) refuse_zip("the zip archive has more than one data.pkl", subject);
    folder = name.substr(0, name.size() - kPickle.size() + 1);
  }
  if (folder.empty()) refuse_archive(archive, subject);
  return folder;
}

void check_byte_order(const ZipArchive& archive, const std::string& name,
                      const std::string& subject) {
  if (!archive.entries().contains(name)) return;  // PyTorch below 2.1: little-endian
  const auto bytes = archive.content(name);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order == "little") return;
  refuse_zip(order == "big" ? "the tensors are big-endian"
                            : "expected the byte order \"little\", found " + quote(order),
             subject, "load and save the file on a little-endian machine");
}

}  // namespace

TorchContents read_torch_zip(std::span<const std::byte> bytes, pickle::Heap& heap) {
  const std::string& subject = heap.subject();
  const ZipArchive archive(bytes, subject);
  const std::string folder = find_folder(archive, subject);
  if (archive.entries().contains(folder + "constants.pkl")) {
    refuse_zip("expected a state dict, found a TorchScript program", subject,
               "load it with torch.jit.load and save its state_dict()");
  }
  check_byte_order(archive, folder + "byteorder", subject);

  TorchContents contents;
  contents.root = pickle::run(archive.content(folder + "data.pkl"), heap).value;
  const std::string prefix = folder + "data/";
  const auto& entries = archive.entries();
  for (auto entry = entries.lower_bound(prefix); entry != entries.end(); ++entry) {
    const std::string_view name = entry->first;
    if (!name.starts_with(prefix)) break;
    contents.storages.emplace(name.substr(prefix.size()), archive.content(name));
  }
  return contents;
}

}  // namespace hydrascope::checkpoint
