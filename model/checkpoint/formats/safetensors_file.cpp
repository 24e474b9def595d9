#include "kernels/error.h"
#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/torch_pickle.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_file(const std::string& what, const fs::path& file) {
  throw Error(ErrorCode::decode_failed, what, file.native());
}

WeightMap open_index(const fs::path& file) {
  const MappedFile mapped(file);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (bytes.empty()) throw Error(ErrorCode::empty, "the file is empty", file.native());
  if (bytes.size() > kMaxHeaderBytes) {
    fail_file("an index of " + std::to_string(bytes.size()) + " bytes, more than the limit of " +
                  std::to_string(kMaxHeaderBytes),
              file);
  }
  return read_weight_map({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                         file.native());
}

/// Compares the shards' tensors, `holders`, with the index's, `promised`; they must be equal.
void compare(const WeightMap& promised, const WeightMap& holders, const fs::path& index_file) {
  for (const auto& [tensor, shard] : promised) {
    const auto found = holders.find(tensor);
    if (found != holders.end() && found->second == shard) continue;
    fail_file("tensor " + quote(tensor) + " is not in " + quote(shard) +
                  ", where weight_map says it is" +
                  (found == holders.end() ? "" : ", but in " + quote(found->second)),
              index_file);
  }
  for (const auto& [tensor, shard] : holders) {
    if (!promised.contains(tensor)) {
      fail_file("tensor " + quote(tensor) + " of " + quote(shard) + " is missing in weight_map",
                index_file);
    }
  }
}

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden{"/\\\0", 3};
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

}  // namespace

WeightMap read_weight_map(std::string_view text, const std::string& subject) {
  const nlohmann::json json = parse_json(text, "index", subject);
  const auto expect_object = [&](const nlohmann::json& value, const std::string& place) {
    if (!value.is_object())
      fail_file(place + ": expected an object, found " + describe(value), subject);
  };
  expect_object(json, "the index");
  WeightMap map;
  if (const auto weights = json.find("weight_map"); weights != json.end()) {
    expect_object(*weights, "weight_map");
    for (const auto& [tensor, file] : weights->items()) {
      if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
        fail_file("weight_map " + quote(tensor) +
                      ": expected the name of a file beside the index, found " + describe(file),
                  subject);
      }
      map.emplace(tensor, file.get<std::string>());
    }
  }
  if (map.empty())
    fail_file("the index names no tensors: its weight_map is missing or empty", subject);
  return map;
}

bool is_shard_index(const fs::path& file, std::span<const std::byte> bytes) {
  const std::string_view format = sniff_format(bytes);
  if (file.native().ends_with(".index.json"))
    return format != "git_lfs_pointer" && format != "html";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return format == "json" && bytes.size() <= kMaxHeaderBytes &&
         text.find("\"weight_map\"") != std::string_view::npos;
}

SafetensorsFile SafetensorsFile::open(const fs::path& file) {
  SafetensorsFile result;
  if (is_shard_index(file, MappedFile(file).bytes())) {
    result.append_shards(file);
  } else {
    result.append(file);
  }
  return result;
}

void SafetensorsFile::append_torch(const fs::path& file) {
  auto shard = std::make_shared<const TorchPickleFile>(TorchPickleFile::open(file));
  format_ = shard->format();
  if (!shard->note().empty()) notes_.push_back(file.filename().string() + ": " + shard->note());
  std::ranges::copy(shard->tensors(), std::back_inserter(tensors_));
  owners_.push_back(std::move(shard));
}

void SafetensorsFile::append(const fs::path& file) {
  auto mapped = std::make_shared<MappedFile>(file);
  const std::string_view format = sniff_format(mapped->bytes());
  if (format == "torch_zip" || format == "torch_legacy") return append_torch(file);
  SafetensorsIndex index = parse_safetensors(mapped->bytes(), file.native());
  for (auto& [key, value] : index.metadata) {
    const auto [entry, is_new] = metadata_.try_emplace(key, value);
    if (!is_new && entry->second != value) {
      fail_file("__metadata__ " + quote(key) + ": " + quote(value) + ", but another shard says " +
                    quote(entry->second),
                file);
    }
  }
  owners_.push_back(std::move(mapped));
  std::ranges::move(index.tensors, std::back_inserter(tensors_));
}

void SafetensorsFile::append_shards(const fs::path& index_file) {
  const WeightMap promised = open_index(index_file);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : promised) shards.insert(shard);
  WeightMap holders;
  for (const std::string& shard : shards) {
    const std::size_t first = tensors_.size();
    try {
      append(index_file.parent_path() / shard);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(error.code(), error.what(), error.about(),
                  index_file.native() + " names it: all its files must lie beside it");
    }
    for (std::size_t i = first; i < tensors_.size(); ++i) {
      const auto [holder, is_new] = holders.try_emplace(tensors_[i].name, shard);
      if (!is_new) {
        fail_file("tensor " + quote(tensors_[i].name) + " is both in " + quote(holder->second) +
                      " and in " + quote(shard),
                  index_file);
      }
    }
  }
  compare(promised, holders, index_file);
}

const TensorView* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors_, name, &TensorView::name);
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace hydrascope::checkpoint
