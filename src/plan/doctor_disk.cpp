// The checks of the folder that experts are read from, and of the drive behind it.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/disk_rate.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "plan/doctor.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLeastFree = 1'000'000'000;
constexpr std::uint64_t kHotCelsius = 70;  // drives slow themselves down soon above it

std::optional<Mount> mount_of(const SystemFiles& system, const fs::path& folder) {
  std::error_code error;
  const fs::path path = fs::canonical(folder, error);
  return error ? std::nullopt : system.mount_of(path);
}

fs::path first_file(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) return entry->path();
  }
  return {};
}

// A file of the folder, else an empty one made for the question.
bool reads_directly(const fs::path& folder) {
  const fs::path file = first_file(folder);
  if (!file.empty()) return File::open_read(file, Caching::kDirect).is_direct();
  const fs::path made = folder / fmt::format(".perigee-doctor-{}.partial", ::getpid());
  const bool direct = File::create(made, Caching::kDirect).is_direct();
  std::error_code ignored;
  fs::remove(made, ignored);
  return direct;
}

// The folder in /sys of the whole drive; a partition's is inside it.
std::string drive_folder(const SystemFiles& system, const std::string& device) {
  const std::string block = "/sys/dev/block/" + device;
  return system.has(block + "/partition") ? block + "/.." : block;
}

// Of a virtual machine, whose kernel takes every drive for one with heads.
bool is_virtual(const SystemFiles& system, const std::string& drive) {
  std::error_code error;
  const fs::path place = fs::canonical(system.at(drive), error);
  return !error && place.string().find("/virtio") != std::string::npos;
}

// Thousandths of a degree, of the drive's first sensor.
std::optional<std::uint64_t> celsius_of(const SystemFiles& system, const std::string& drive) {
  for (const std::string& folder : {drive + "/device", drive + "/device/hwmon"}) {
    for (const std::string& name : system.names_in(folder)) {
      if (!name.starts_with("hwmon")) continue;
      const auto value = system.number(folder + "/" + name + "/temp1_input");
      if (value) return *value / 1000;
    }
  }
  return std::nullopt;
}

}  // namespace

Check check_file_system(const SystemFiles& system, const fs::path& folder) {
  const std::optional<Mount> mount = mount_of(system, folder);
  if (!mount) {
    return {"file system", CheckLevel::kWarn, "cannot be found out",
            "look at df " + folder.string() + ": it should be a local drive"};
  }
  Check check{"file system", CheckLevel::kOk, fmt::format("{} on {}", mount->type, mount->source), ""};
  static constexpr std::array<std::string_view, 8> kRemote = {"nfs",  "nfs4",   "cifs", "9p",
                                                              "ceph", "lustre", "smb3", "virtiofs"};
  if (std::ranges::find(kRemote, mount->type) != kRemote.end() || mount->type.starts_with("fuse")) {
    check.level = CheckLevel::kWarn;
    check.advice = "every token waits for it: copy the model to a local drive";
  } else if (mount->type == "tmpfs") {
    check.level = CheckLevel::kWarn;
    check.advice = "it lies in memory, which the model needs: put the model on a drive";
  } else if (mount->type == "overlay") {
    check.level = CheckLevel::kWarn;
    check.advice = "it is a container's own layer: mount the model's folder into the container";
  }
  return check;
}

Check check_direct_io(const fs::path& folder) {
  try {
    if (reads_directly(folder)) return {"direct reads", CheckLevel::kOk, "O_DIRECT works", ""};
    return {
        "direct reads", CheckLevel::kWarn, "the file system refuses O_DIRECT",
        "reads go through the page cache: ten times the CPU time and memory taken from experts; use ext4 or "
        "xfs"};
  } catch (const Error& error) {
    return {"direct reads", CheckLevel::kFail, error.what(), "give perigee the right to read this folder"};
  }
}

Check check_drive(const SystemFiles& system, const fs::path& folder) {
  const std::optional<Mount> mount = mount_of(system, folder);
  const std::string drive = mount ? drive_folder(system, mount->device) : "";
  const auto turns = system.number(drive + "/queue/rotational");
  if (drive.empty() || !turns || is_virtual(system, drive)) {
    return {"drive", CheckLevel::kOk, "its kind is not told; perigee bench machine measures it", ""};
  }
  Check check{"drive", CheckLevel::kOk, *turns != 0 ? "has moving heads" : "solid state", ""};
  if (const auto model = system.line(drive + "/device/model")) {
    check.found += ", " + model->substr(0, model->find_last_not_of(' ') + 1);
  }
  const auto celsius = celsius_of(system, drive);
  if (celsius) check.found += fmt::format(", {} °C", *celsius);
  if (*turns != 0) {
    check.level = CheckLevel::kWarn;
    check.advice = "some 0.2 GB/s, a token of K3 reads up to 25.8 GB: use an NVMe drive";
  } else if (celsius.value_or(0) >= kHotCelsius) {
    check.level = CheckLevel::kWarn;
    check.advice = "drives slow down when hot: give it air, or a heat sink";
  }
  return check;
}

Check check_free_space(const fs::path& folder) {
  const std::uint64_t free = free_bytes(folder);
  Check check{"free space", CheckLevel::kOk, format_bytes(free), ""};
  if (free < kLeastFree) {
    check.level = CheckLevel::kWarn;
    check.advice = "enough to run, but perigee pack and convert need as much as the model has";
  }
  return check;
}

}  // namespace perigee
