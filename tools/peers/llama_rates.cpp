// Runs token ids through llama.cpp's libllama and says how long it took, for llama_cpp.py: load, prompt,
// decode. With --logits it also writes the logits of every prompt position, raw float32. No tokenizer, no
// sampling but the most likely id, one sequence. Uses llama.h only; no code of llama.cpp is in it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama.h"

namespace {

struct Arguments {
  std::string model, ids_file, logits_file;
  int threads = 1;
  int decode = 0;
  bool f32_cache = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--f32-cache") {
      arguments.f32_cache = true;
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error(option + ": needs a value");
    const std::string value = argv[++i];
    if (option == "--model")
      arguments.model = value;
    else if (option == "--ids")
      arguments.ids_file = value;
    else if (option == "--logits")
      arguments.logits_file = value;
    else if (option == "--threads")
      arguments.threads = std::stoi(value);
    else if (option == "--decode")
      arguments.decode = std::stoi(value);
    else
      throw std::runtime_error(option + ": no such option");
  }
  return arguments;
}

// Ids between blanks.
std::vector<llama_token> read_ids(const std::string& path) {
  std::ifstream file(path);
  std::vector<llama_token> ids;
  for (llama_token id; file >> id;) ids.push_back(id);
  if (ids.empty() || !file.eof()) throw std::runtime_error(path + ": must hold token ids between blanks");
  return ids;
}

struct Peer {
  llama_model* model = nullptr;
  llama_context* context = nullptr;
  int vocabulary = 0;

  Peer(const Arguments& arguments, std::size_t prompt) {
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    llama_backend_init();
    model = llama_model_load_from_file(arguments.model.c_str(), llama_model_default_params());
    if (model == nullptr) throw std::runtime_error(arguments.model + ": llama.cpp cannot load it");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(prompt) + static_cast<std::uint32_t>(arguments.decode) + 1;
    params.n_batch = static_cast<std::uint32_t>(prompt);
    params.n_threads = params.n_threads_batch = arguments.threads;
    if (arguments.f32_cache) params.type_k = params.type_v = GGML_TYPE_F32;
    context = llama_init_from_model(model, params);
    if (context == nullptr) throw std::runtime_error(arguments.model + ": llama.cpp cannot make a context");
    vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  }

  ~Peer() {
    if (context != nullptr) llama_free(context);
    if (model != nullptr) llama_model_free(model);
    llama_backend_free();
  }

  void run(llama_batch batch) {
    if (const int status = llama_decode(context, batch); status != 0)
      throw std::runtime_error("llama_decode failed with " + std::to_string(status));
  }

  // Reads every weight once, as llama.cpp's own programs do before they are used; the context is empty after
  // it.
  void warm_up(llama_token id) {
    run(llama_batch_get_one(&id, 1));
    llama_memory_clear(llama_get_memory(context), true);
  }

  void run_prompt(const std::vector<llama_token>& ids, bool all_logits) {
    llama_batch batch = llama_batch_init(static_cast<int>(ids.size()), 0, 1);
    batch.n_tokens = static_cast<int>(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      batch.token[i] = ids[i];
      batch.pos[i] = static_cast<llama_pos>(i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = all_logits || i + 1 == ids.size();
    }
    run(batch);
    llama_batch_free(batch);
  }

  llama_token most_likely() const {
    const float* logits = llama_get_logits_ith(context, -1);
    return static_cast<llama_token>(std::max_element(logits, logits + vocabulary) - logits);
  }

  void write_logits(const std::string& path, std::size_t rows) const {
    std::ofstream file(path, std::ios::binary);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto* logits =
          reinterpret_cast<const char*>(llama_get_logits_ith(context, static_cast<int>(row)));
      file.write(logits, static_cast<std::streamsize>(sizeof(float)) * vocabulary);
    }
    if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
  }
};

void measure(const Arguments& arguments) {
  const std::vector<llama_token> ids = read_ids(arguments.ids_file);
  const double start = now();
  Peer peer(arguments, ids.size());
  peer.warm_up(ids.front());
  const double loaded = now();
  peer.run_prompt(ids, !arguments.logits_file.empty());
  llama_token next = peer.most_likely();
  const double prompted = now();
  if (!arguments.logits_file.empty()) peer.write_logits(arguments.logits_file, ids.size());
  const double first = now();
  for (int i = 0; i < arguments.decode; ++i) {
    peer.run(llama_batch_get_one(&next, 1));
    next = peer.most_likely();
  }
  const double end = now();
  std::printf("{\"load\": %.6f, \"prompt\": %.6f, \"token\": %.6f}\n", loaded - start, prompted - loaded,
              end - first);
  std::fflush(stdout);  // before all is freed: who waits for it takes this for the end of the last span
}

}  // namespace

int main(int argc, char** argv) {
  try {
    measure(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llama_rates: %s\n", error.what());
    return 1;
  }
}
