#include "fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "checkpoint/dtype.h"
#include "checkpoint/safetensors.h"

namespace perigee::test {
namespace {

using nlohmann::json;

json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return json::parse(stream);
}

bool is_expert(const std::string& name) {
  return name.find(".experts.") != std::string::npos;
}

// "….experts.5.w1" of "….experts.5.w1.weight_scale"
std::string module_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

// The manifest of compressed-tensors' NVFP4A16 preset, and a list of all that K3 leaves unquantised.
json compressed_tensors_config() {
  json config = read_json(golden("source") / "config.json");
  config["text_config"].erase("quantization_config");
  const json weights = {{"num_bits", 4},
                        {"type", "float"},
                        {"symmetric", true},
                        {"strategy", "tensor_group"},
                        {"group_size", 16},
                        {"dynamic", false},
                        {"actorder", nullptr},
                        {"block_structure", nullptr},
                        {"observer", "minmax"},
                        {"observer_kwargs", json::object()},
                        {"scale_dtype", "torch.float8_e4m3fn"},
                        {"zp_dtype", nullptr}};
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "nvfp4-pack-quantized"},
      {"quantization_status", "compressed"},
      {"config_groups",
       {{"group_0",
         {{"format", "nvfp4-pack-quantized"},
          {"targets", {"Linear"}},
          {"weights", weights},
          {"input_activations", nullptr},
          {"output_activations", nullptr}}}}},
      {"ignore",
       {"re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
        "re:.*lm_head.*", "re:.*vision_tower.*", "re:.*mm_projector.*", "re:.*block_sparse_moe\\.gate.*",
        "re:.*mlp\\.gate$", "re:.*routed_expert.*", "re:.*mlp_res_proj.*", "re:.*self_attention_res_proj.*",
        "re:.*output_attn_res_proj.*"}}};
  return config;
}

void write_file(const std::filesystem::path& path, const MiniTensors& tensors, bool types_apart) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors) {
    TensorInfo info;
    info.name = name;
    info.dtype = parse_dtype(tensor.dtype).value();
    info.shape = tensor.shape;
    infos.push_back(std::move(info));
  }
  if (types_apart) {
    std::stable_sort(infos.begin(), infos.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return std::pair(dtype_bits(a.dtype), a.dtype) > std::pair(dtype_bits(b.dtype), b.dtype);
    });
  }
  assign_offsets(infos);
  std::ofstream stream(path, std::ios::binary);
  stream << serialize_safetensors_header(infos, {{"format", "pt"}});
  for (const TensorInfo& info : infos) {
    const std::vector<std::byte>& data = tensors.at(info.name).data;
    stream.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  }
}

}  // namespace

void MemoryCheckpoint::index_all() {
  weight_map.clear();
  total_size = 0;
  for (const auto& [file, tensors] : files) {
    for (const auto& [name, tensor] : tensors) {
      weight_map[name] = file;
      total_size += tensor.data.size();
    }
  }
}

MiniTensor& MemoryCheckpoint::tensor(const std::string& name) {
  return files.at(file_of(name)).at(name);
}

std::string MemoryCheckpoint::file_of(const std::string& name) const {
  for (const auto& [file, tensors] : files) {
    if (tensors.contains(name)) return file;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

void MemoryCheckpoint::write(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  for (const auto& [file, tensors] : files) write_file(folder / file, tensors, types_apart);
  for (const auto& [name, content] : json) std::ofstream(folder / name) << content.dump(2) << "\n";
  const nlohmann::json index = {{"metadata", {{"total_size", total_size}}}, {"weight_map", weight_map}};
  std::ofstream(folder / "model.safetensors.index.json") << index.dump(2) << "\n";
}

nlohmann::json expected_values() {
  return read_json(golden("expected.json"));
}

MemoryCheckpoint load_checkpoint(const std::string& golden_name) {
  MemoryCheckpoint checkpoint;
  for (const auto& entry : std::filesystem::directory_iterator(golden(golden_name))) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors") checkpoint.files[name] = read_safetensors(entry.path());
  }
  checkpoint.json["config.json"] = read_json(golden(golden_name) / "config.json");
  checkpoint.index_all();
  return checkpoint;
}

MemoryCheckpoint convert_by_golden(const std::string& source, const std::string& experts) {
  MemoryCheckpoint checkpoint = load_checkpoint(source);
  std::map<std::string, std::string> file_of_module;
  for (auto& [file, tensors] : checkpoint.files) {
    for (auto it = tensors.begin(); it != tensors.end();) {
      if (is_expert(it->first)) file_of_module[module_of(it->first)] = file;
      it = is_expert(it->first) ? tensors.erase(it) : std::next(it);
    }
  }
  for (const auto& [name, tensor] : read_safetensors(golden(experts) / "experts.safetensors")) {
    checkpoint.files.at(file_of_module.at(module_of(name)))[name] = tensor;
  }
  if (experts.ends_with("_ct")) {
    checkpoint.json["config.json"] = compressed_tensors_config();
  } else {
    for (const char* name : {"config.json", "hf_quant_config.json"}) {
      checkpoint.json[name] = read_json(golden("cast_modelopt") / name);
    }
  }
  checkpoint.index_all();
  return checkpoint;
}

MemoryCheckpoint convert_mixed() {
  MemoryCheckpoint checkpoint = convert_by_golden("source", "cast_modelopt");
  for (const auto& [name, tensor] : read_safetensors(golden("mixed_modelopt") / "attention.safetensors")) {
    const std::string weight = module_of(name) + ".weight";
    checkpoint.files.at(checkpoint.file_of(weight))[name] = tensor;
  }
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    checkpoint.json[name] = read_json(golden("mixed_modelopt") / name);
  }
  checkpoint.index_all();
  return checkpoint;
}

VerifyReport verify(const std::string& source, const MemoryCheckpoint& output, const VerifyOptions& options) {
  const TempDir folder;
  output.write(folder / "out");
  return verify_folders(golden(source), folder / "out", options);
}

VerifyReport verify_folders(const std::filesystem::path& source, const std::filesystem::path& output,
                            const VerifyOptions& options) {
  VerifyOptions small = options;
  small.workers = 2;
  small.memory_bytes = 16 << 20;
  return verify_checkpoint(source, output, small);
}

std::string messages(const VerifyReport& report) {
  std::string all;
  for (const VerifyFailure& failure : report.failures.kept)
    all += failure.check + ": " + failure.message + "\n";
  for (const std::string& warning : report.warnings) all += "warning: " + warning + "\n";
  return all;
}

}  // namespace perigee::test
