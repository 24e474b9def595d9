// Permissions do not bind root, under whom tests run in containers.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace hydrascope::testing {

/// While it lives, root is somebody else, whom `folder` lets in; other users stay who they are.
class AsNobody {
 public:
  explicit AsNobody(const std::filesystem::path& folder) : is_root_(::geteuid() == 0) {
    std::filesystem::permissions(folder, std::filesystem::perms::all);
    constexpr uid_t kNobody = 65534;
    if (is_root_) {
      EXPECT_EQ(::seteuid(kNobody), 0);
    }
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() {
    if (is_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  bool is_root_;
};

}  // namespace hydrascope::testing
