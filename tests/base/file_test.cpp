#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string read_text(const File& file, std::uint64_t offset, std::size_t length) {
  std::string text(length, '?');
  file.read_exact(std::as_writable_bytes(std::span(text)), offset);
  return text;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1 || errno != EBADF;
}

// While it lives, no file of this process can grow beyond `bytes` (the write fails with EFBIG).
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_before_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_before_)(int) = nullptr;
};

TEST(Alignment, RoundsToMultiples) {
  EXPECT_EQ(align_down(4095, 4096), 0u);
  EXPECT_EQ(align_down(4096, 4096), 4096u);
  EXPECT_EQ(align_up(0, 4096), 0u);
  EXPECT_EQ(align_up(1, 4096), 4096u);
  EXPECT_EQ(align_up(4096, 4096), 4096u);
  EXPECT_EQ(align_up(4097, 4096), 8192u);
}

TEST(File, ReadsBackWhatItWroteAtAnyOffset) {
  const TempDir folder;
  const File file = File::create(folder / "a");
  constexpr std::uint64_t kFar = 5ull << 30;  // beyond 32 bits; the file is sparse
  file.write_exact(bytes_of("world"), kFar);
  file.write_exact(bytes_of("hello"), 3);
  EXPECT_EQ(file.size(), kFar + 5);
  EXPECT_EQ(read_text(file, kFar, 5), "world");
  EXPECT_EQ(read_text(file, 3, 5), "hello");
  EXPECT_EQ(read_text(file, 0, 4), std::string("\0\0\0h", 4));
}

TEST(File, CreateEmptiesWhatWasThere) {
  const TempDir folder;
  File::create(folder / "a").write_exact(bytes_of("old content"), 0);
  EXPECT_EQ(File::create(folder / "a").size(), 0u);
}

TEST(File, CallsAReadBeyondTheEndTruncation) {
  const TempDir folder;
  const File file = File::create(folder / "a.safetensors");
  file.write_exact(bytes_of("12345678"), 0);
  EXPECT_ERROR(read_text(file, 4, 5), ErrorCode::kCorrupt, "a.safetensors ends at byte 8");
  EXPECT_ERROR(read_text(file, 100, 1), ErrorCode::kCorrupt, "truncated");
  EXPECT_EQ(read_text(file, 4, 4), "5678");
}

TEST(File, NamesAFileThatIsMissing) {
  const TempDir folder;
  EXPECT_ERROR(File::open_read(folder / "gone.json"), ErrorCode::kNotFound, "gone.json");
  EXPECT_ERROR(File::create(folder / "no-folder" / "a"), ErrorCode::kNotFound, "no-folder/a");
}

TEST(File, OpensOnlyRegularFiles) {
  const TempDir folder;
  EXPECT_ERROR(File::open_read(folder.path()), ErrorCode::kIo, "not a regular file");
  EXPECT_ERROR(File::open_read("/dev/zero"), ErrorCode::kIo, "not a regular file");
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_ERROR(File::open_read(pipe), ErrorCode::kIo, "not a regular file");
}

TEST(File, ReportsADiskThatIsFull) {
  const TempDir folder;
  fs::create_symlink("/dev/full", folder / "a");
  const File file = File::create(folder / "a");
  EXPECT_ERROR(file.write_exact(bytes_of("x"), 0), ErrorCode::kNoSpace, "free some space");
}

TEST(File, ClosesItsDescriptorWhenItDiesOrIsReplaced) {
  const TempDir folder;
  File first = File::create(folder / "a");
  File second = File::create(folder / "b");
  const int fd_of_first = first.fd();
  const int fd_of_second = second.fd();
  first = std::move(second);
  EXPECT_FALSE(is_open(fd_of_first));
  EXPECT_EQ(first.fd(), fd_of_second);
  EXPECT_EQ(first.path(), folder / "b");
  EXPECT_FALSE(second.is_open());
  { const File third = std::move(first); }
  EXPECT_FALSE(is_open(fd_of_second));
}

TEST(File, MayBeClosedTwice) {
  const TempDir folder;
  File file = File::create(folder / "a");
  file.close();
  EXPECT_FALSE(file.is_open());
  EXPECT_NO_THROW(file.close());
}

TEST(File, IsNotInheritedByOtherPrograms) {
  const TempDir folder;
  const File file = File::create(folder / "a");
  EXPECT_EQ(::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(File, ReservesSpaceAndIsCutToSize) {
  const TempDir folder;
  const File file = File::create(folder / "a");
  file.write_exact(bytes_of("abc"), 0);
  file.preallocate(1 << 20);
  file.preallocate(0);
  file.truncate(3);
  file.sync();
  EXPECT_EQ(file.size(), 3u);
  EXPECT_EQ(read_text(file, 0, 3), "abc");
}

TEST(File, KnowsItsModificationTimeToTheNanosecond) {
  const TempDir folder;
  const File file = File::create(folder / "a");
  const timespec times[2] = {{1'600'000'000, 0}, {1'600'000'000, 123'456'789}};
  ASSERT_EQ(::futimens(file.fd(), times), 0);
  EXPECT_EQ(file.modified_ns(), 1'600'000'000'123'456'789);
}

TEST(File, GivesTheSameBytesWithDirectAccess) {
  const TempDir folder;
  struct Freed {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Freed> memory(std::aligned_alloc(kDirectAlignment, 2 * kDirectAlignment));
  const std::span<std::byte> buffer(static_cast<std::byte*>(memory.get()), 2 * kDirectAlignment);
  std::memset(buffer.data(), 'x', kDirectAlignment);
  std::memset(buffer.data() + kDirectAlignment, 'y', kDirectAlignment);
  {
    const File written = File::create(folder / "a", Caching::kDirect);
    written.write_exact(buffer, 0);
    written.sync();
  }
  std::memset(buffer.data(), 0, buffer.size());
  const File direct = File::open_read(folder / "a", Caching::kDirect);
  direct.read_exact(buffer.first(kDirectAlignment), kDirectAlignment);
  EXPECT_EQ(buffer[0], std::byte{'y'});
  EXPECT_EQ(buffer[kDirectAlignment - 1], std::byte{'y'});
  const File cached = File::open_read(folder / "a");
  EXPECT_FALSE(cached.is_direct());
  EXPECT_EQ(read_text(cached, kDirectAlignment - 1, 2), "xy");
}

TEST(File, IsReadFromSeveralThreadsAtOnce) {
  const TempDir folder;
  const File file = File::create(folder / "a");
  for (int i = 0; i < 256; ++i) file.write_exact(bytes_of(std::string(64, static_cast<char>(i))), i * 64u);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> readers;
  for (int& count : wrong) {
    readers.emplace_back([&file, &count] {
      for (int i = 0; i < 256; ++i)
        count += read_text(file, i * 64u, 64) != std::string(64, static_cast<char>(i));
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(RenameDurably, ReplacesTheTarget) {
  const TempDir folder;
  write_file_atomically(folder / "new", "new");
  write_file_atomically(folder / "old", "old");
  rename_durably(folder / "new", folder / "old");
  EXPECT_EQ(read_small_file(folder / "old", 100), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"old"});
}

TEST(RenameDurably, NamesBothFilesWhenItFails) {
  const TempDir folder;
  EXPECT_ERROR(rename_durably(folder / "gone", folder / "b"), ErrorCode::kNotFound, "gone to ");
}

TEST(SyncDirectory, NamesAFolderThatIsMissing) {
  const TempDir folder;
  EXPECT_NO_THROW(sync_directory(folder.path()));
  EXPECT_NO_THROW(sync_directory({})) << "an empty path is the current folder";
  EXPECT_ERROR(sync_directory(folder / "gone"), ErrorCode::kNotFound, "gone");
}

TEST(WriteFileAtomically, LeavesTheFileAndNothingElse) {
  const TempDir folder;
  write_file_atomically(folder / "a.json", "first");
  write_file_atomically(folder / "a.json", std::string("se\0cond", 7));
  EXPECT_EQ(read_small_file(folder / "a.json", 100), std::string("se\0cond", 7));
  write_file_atomically(folder / "a.json", "");
  EXPECT_EQ(read_small_file(folder / "a.json", 100), "");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.json"});
}

TEST(WriteFileAtomically, OverwritesTheRemainsOfAKilledRun) {
  const TempDir folder;
  write_file_atomically(folder / "a.partial", "a much longer remainder of a run that was killed");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_small_file(folder / "a", 100), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFileAtomically, UsesTheTemporaryNameThatItIsGiven) {
  const TempDir folder;
  fs::create_directory(folder / "a.partial");  // the default name is of no use here
  write_file_atomically(folder / "a", "new", folder / "mine");
  EXPECT_EQ(read_small_file(folder / "a", 100), "new");
  EXPECT_FALSE(fs::exists(folder / "mine"));
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheDiskIsFull) {
  const TempDir folder;
  write_file_atomically(folder / "a", "old");
  fs::create_symlink("/dev/full", folder / "a.partial");
  EXPECT_ERROR(write_file_atomically(folder / "a", "new"), ErrorCode::kNoSpace, "a.partial");
  EXPECT_EQ(read_small_file(folder / "a", 100), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheWriteStopsHalfWay) {
  const TempDir folder;
  write_file_atomically(folder / "a", "old");
  {
    const FileSizeLimit limit(1000);
    EXPECT_ERROR(write_file_atomically(folder / "a", std::string(5000, 'n')), ErrorCode::kIo,
                 "a.partial at byte 1000");
  }
  EXPECT_EQ(read_small_file(folder / "a", 100), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFileAtomically, KeepsTheOldFileWhenTheRenameFails) {
  const TempDir folder;
  fs::create_directory(folder / "a");
  write_file_atomically(folder / "a" / "inside", "old");
  EXPECT_ERROR(write_file_atomically(folder / "a", "new"), ErrorCode::kIo, "cannot rename");
  EXPECT_EQ(read_small_file(folder / "a" / "inside", 100), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFileAtomically, NeverShowsAReaderHalfAFile) {
  const TempDir folder;
  constexpr std::size_t kSize = 100'000;
  write_file_atomically(folder / "a", std::string(kSize, 'a'));
  std::thread writer([&folder] {
    for (int i = 0; i < 40; ++i)
      write_file_atomically(folder / "a", std::string(kSize, i % 2 == 0 ? 'b' : 'a'));
    write_file_atomically(folder / "a", "end");
  });
  int halves = 0;
  for (std::string text; text != "end";) {
    text = read_small_file(folder / "a", kSize);
    if (text != "end") halves += text != std::string(kSize, text.empty() ? '?' : text[0]);
  }
  writer.join();
  EXPECT_EQ(halves, 0);
}

TEST(ReadSmallFile, RefusesOneByteMoreThanAllowed) {
  const TempDir folder;
  write_file_atomically(folder / "a", "12345678");
  EXPECT_EQ(read_small_file(folder / "a", 8), "12345678");
  EXPECT_ERROR(read_small_file(folder / "a", 7), ErrorCode::kCorrupt, "has 8 bytes, more than the 7");
}

TEST(ReadSmallFile, DoesNotTryToAllocateAGiant) {
  const TempDir folder;
  File::create(folder / "a").truncate(1ull << 42);  // 4 TiB, sparse
  EXPECT_ERROR(read_small_file(folder / "a", 1 << 20), ErrorCode::kCorrupt, "4398046511104 bytes");
}

}  // namespace
}  // namespace perigee
