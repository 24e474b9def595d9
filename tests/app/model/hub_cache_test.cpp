#include "app/run/assets.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>

namespace hydrascope::app {
namespace hub_cache_test {

namespace fs = std::filesystem;

/// A cache of one model with two commits, and nothing else in the environment that names one.
class HubCacheTest : public ::testing::Test {
 protected:
  HubCacheTest() {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
      ::unsetenv(name);
    const std::string model = "hub/models--timm--vit_tiny.in1k/";
    folder_.write(model + "refs/main", "c0ffee");
    folder_.write(model + "refs/refs/pr/1", "decade");
    for (const char* commit : {"c0ffee", "decade"}) {
      folder_.write(model + "snapshots/" + commit + "/config.json", "{}");
      folder_.write(model + "snapshots/" + commit + "/model.safetensors", "");
    }
    folder_.write("hub/models--org--part/refs/main", "abcdef");
    folder_.write("hub/models--org--part/snapshots/abcdef/config.json", "{}");
    ::setenv("HF_HOME", folder_.path().c_str(), 1);
  }
  fs::path snapshot(const std::string& commit) const {
    return folder_.path() / "hub/models--timm--vit_tiny.in1k/snapshots" / commit;
  }
  testing::TemporaryFolder folder_;
};

TEST(HubNameTest, HasAPrefixOrIsBare) {
  for (const char* word : {"hf-hub:timm/vit_tiny.in1k", "hf_hub:timm/vit_tiny.in1k",
                           "timm/vit_tiny.in1k", "timm/vit_tiny.in1k@main"}) {
    const auto name = parse_hub_name(word);
    ASSERT_TRUE(name) << word;
    EXPECT_EQ(name->repository, "timm/vit_tiny.in1k") << word;
  }
  EXPECT_EQ(parse_hub_name("hf-hub:a/b@refs/pr/1")->revision, "refs/pr/1");
  EXPECT_EQ(parse_hub_name("a/b")->revision, "");
  for (const char* word : {"", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/b@", "a/b@../../c",
                           "~/b", "hf-hub:", "hf-hub:a", "a b/c", "./b"})
    EXPECT_FALSE(parse_hub_name(word)) << word;
}

TEST_F(HubCacheTest, TheEnvironmentSaysWhereItLies) {
  ::unsetenv("HF_HOME");
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(hub_cache_folder(), "/home/somebody/.cache/huggingface/hub");
  ::setenv("HOME", before.c_str(), 1);
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(hub_cache_folder(), "/x/huggingface/hub");
  ::setenv("HF_HOME", "/h", 1);
  EXPECT_EQ(hub_cache_folder(), "/h/hub");
  ::setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(hub_cache_folder(), "/old");
  ::setenv("HF_HUB_CACHE", "/c", 1);
  EXPECT_EQ(hub_cache_folder(), "/c");
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
    ::unsetenv(name);
}

TEST_F(HubCacheTest, BranchesCommitsAndTheDefault) {
  EXPECT_EQ(hub_folder("hf-hub:timm/vit_tiny.in1k"), snapshot("c0ffee"));
  EXPECT_EQ(hub_folder("timm/vit_tiny.in1k"), snapshot("c0ffee"));
  EXPECT_EQ(hub_folder("hf-hub:timm/vit_tiny.in1k@main"), snapshot("c0ffee"));
  EXPECT_EQ(hub_folder("hf-hub:timm/vit_tiny.in1k@refs/pr/1"), snapshot("decade"));
  EXPECT_EQ(hub_folder("hf-hub:timm/vit_tiny.in1k@decade"), snapshot("decade"));
}

TEST_F(HubCacheTest, WhatIsNotThereIsFetchedByTheCommandThatTheErrorNames) {
  const auto hint = [](const char* word) -> std::string {
    try {
      (void)hub_folder(word);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.hint();
    }
    return "none";
  };
  EXPECT_EQ(hint("hf-hub:org/name"), "`hf download org/name` fetches it");
  EXPECT_EQ(hint("hf-hub:timm/vit_tiny.in1k@v2"),
            "`hf download timm/vit_tiny.in1k --revision v2` fetches it");
  EXPECT_EQ(hint("hf-hub:org/part"), "`hf download org/part` fetches it")
      << "a configuration without weights";
  EXPECT_ERROR(hub_folder("hf-hub:org/part"), invalid_argument, "abcdef, holds no weights");
  EXPECT_ERROR(hub_folder("hf-hub:org/name"), invalid_argument, "not in Hugging Face's cache");
  EXPECT_ERROR(hub_folder("hf-hub:no_slash"), invalid_argument, "hf-hub:org/name@revision");
  EXPECT_EQ(hub_folder("org/name"), std::nullopt) << "it may be a path";
  EXPECT_EQ(hub_folder("deit_tiny"), std::nullopt);
}

}  // namespace hub_cache_test
}  // namespace hydrascope::app
