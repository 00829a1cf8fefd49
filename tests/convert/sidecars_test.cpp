#include "convert/sidecars.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_file_atomically(path, text);
}

std::string get(const fs::path& path) {
  return read_small_file(path, 1 << 20);
}

std::vector<std::string> output_names(const SidecarList& list) {
  std::vector<std::string> names;
  for (const SidecarFile& file : list.files) names.push_back(file.output_name);
  return names;
}

TEST(Sidecars, TakesWhatBelongsToTheModelAndLeavesWhatIsMadeAnew) {
  const test::TempDir source;
  for (const char* name : {"config.json",
                           "hf_quant_config.json",
                           "model.safetensors.index.json",
                           "model-00001-of-000002.safetensors",
                           "pytorch_model.bin",
                           "SHA256SUMS",
                           "conversion_report.json",
                           "conversion_modules.jsonl",
                           ".gitattributes",
                           ".cache/huggingface/x",
                           ".git/HEAD",
                           "model-00002-of-000002.safetensors.incomplete",
                           "download.part",
                           "tokenizer_config.json",
                           "tiktoken.model",
                           "modeling_kimi_k3.py",
                           "chat_template.jinja",
                           "LICENSE",
                           "THIRD_PARTY_NOTICES.md",
                           "generation_config.json",
                           "figures/chart.png",
                           "README.md"}) {
    put(source / name, name);
  }
  const SidecarList list = list_sidecars(source.path());
  EXPECT_EQ(output_names(list),
            (std::vector<std::string>{"LICENSE", "SOURCE_README.md", "THIRD_PARTY_NOTICES.md",
                                      "chat_template.jinja", "figures/chart.png", "generation_config.json",
                                      "modeling_kimi_k3.py", "tiktoken.model", "tokenizer_config.json"}));
  EXPECT_TRUE(list.skipped.empty());
}

TEST(Sidecars, CopiesContentsAndReplacesOldCopies) {
  const test::TempDir source, output;
  put(source / "tiktoken.model", std::string("\0\xff binary", 9));
  put(source / "figures/a/b.txt", "deep");
  put(source / "README.md", "theirs");
  put(output / "tiktoken.model", "old");
  copy_sidecars(source.path(), output.path(), list_sidecars(source.path()));
  EXPECT_EQ(get(output / "tiktoken.model"), std::string("\0\xff binary", 9));
  EXPECT_EQ(get(output / "figures/a/b.txt"), "deep");
  EXPECT_EQ(get(output / "SOURCE_README.md"), "theirs");
  EXPECT_FALSE(fs::exists(output / "README.md"));
  EXPECT_FALSE(fs::exists(output / "tiktoken.model.partial"));
}

TEST(Sidecars, KeepsTheOriginalReadmeThroughASecondConversion) {
  const test::TempDir source;
  put(source / "README.md", "card of the first conversion");
  put(source / "SOURCE_README.md", "original");
  const SidecarList list = list_sidecars(source.path());
  ASSERT_EQ(list.files.size(), 1u);
  EXPECT_EQ(list.files[0].source_name, "SOURCE_README.md");
  EXPECT_EQ(list.files[0].output_name, "SOURCE_README.md");
}

TEST(Sidecars, FollowsLinksToFilesAsInADownloadCache) {
  const test::TempDir cache, output;
  put(cache / "blobs/abc", "tokens");
  fs::create_directories(cache / "snapshot");
  fs::create_symlink("../blobs/abc", cache / "snapshot/tiktoken.model");
  copy_sidecars(cache / "snapshot", output.path(), list_sidecars(cache / "snapshot"));
  EXPECT_EQ(get(output / "tiktoken.model"), "tokens");
  EXPECT_FALSE(fs::is_symlink(output / "tiktoken.model"));
}

TEST(Sidecars, DoesNotFollowLinksToFolders) {
  const test::TempDir source;
  put(source / "real/file.txt", "x");
  fs::create_directory_symlink(source.path(), source / "loop");
  const SidecarList list = list_sidecars(source.path());
  EXPECT_EQ(output_names(list), std::vector<std::string>{"real/file.txt"});
  EXPECT_EQ(list.skipped.size(), 1u);
}

TEST(Sidecars, ABrokenLinkIsAnUnfinishedDownload) {
  const test::TempDir source;
  fs::create_symlink("../blobs/missing", source / "tokenizer_config.json");
  try {
    list_sidecars(source.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("tokenizer_config.json"), std::string::npos);
  }
}

TEST(Sidecars, NeverWritesThroughLinksInTheOutput) {
  const test::TempDir source, output, elsewhere;
  put(source / "notes.txt", "new");
  put(source / "figures/a.png", "new");
  put(elsewhere / "victim", "untouched");
  fs::create_symlink(elsewhere / "victim", output / "notes.txt");
  fs::create_symlink(elsewhere / "victim", output / "notes.txt.partial");
  SidecarList list = list_sidecars(source.path());
  const auto figure = std::find_if(list.files.begin(), list.files.end(), [](const SidecarFile& file) {
    return file.output_name == "figures/a.png";
  });
  ASSERT_NE(figure, list.files.end());
  const SidecarFile kept = *figure;
  list.files.erase(figure);
  copy_sidecars(source.path(), output.path(), list);
  EXPECT_EQ(get(elsewhere / "victim"), "untouched");
  EXPECT_EQ(get(output / "notes.txt"), "new");

  fs::create_directory_symlink(elsewhere.path(), output / "figures");
  list.files = {kept};
  EXPECT_THROW(copy_sidecars(source.path(), output.path(), list), Error);
  EXPECT_FALSE(fs::exists(elsewhere / "a.png"));
}

TEST(Sidecars, RefusesNamesThatLeaveTheFolder) {
  const test::TempDir source, output;
  for (const char* name : {"../x", "/tmp/x", "a/../../x", "", "a/./b"}) {
    SidecarList list;
    list.files = {{name, name, 1}};
    EXPECT_THROW(copy_sidecars(source.path(), output.path(), list), Error) << name;
  }
}

TEST(Sidecars, LeavesOversizedOddAndDeepFilesBehindAndSaysSo) {
  const test::TempDir source;
  put(source / "movie.mp4", "");
  fs::resize_file(source / "movie.mp4", kMaxSidecarBytes + 1);
  put(source / "bad\nname.txt", "x");
  put(source / "a/b/c/d/e.txt", "x");
  const SidecarList list = list_sidecars(source.path());
  EXPECT_TRUE(list.files.empty());
  ASSERT_EQ(list.skipped.size(), 3u);
  EXPECT_NE(list.skipped[2].find("movie.mp4"), std::string::npos);
}

}  // namespace
}  // namespace perigee
