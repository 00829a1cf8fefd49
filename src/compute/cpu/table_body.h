// The kernels of an instruction set, as one table. Included inside an anonymous namespace, after all other
// bodies.
CpuKernels kernel_table(const char* name) {
  CpuKernels kernels;
  kernels.name = name;
  kernels.lanes = kWidth;
  kernels.few_tokens = few_tokens_of;
  kernels.pack_floats = pack_floats;
  kernels.linear_rows = float_linear_rows;
  kernels.decode_row = decode_row;
  kernels.dot = dot;
  kernels.rms_norm = rms_norm;
  kernels.gated_head_norm = gated_head_norm;
  kernels.add = add_rows;
  kernels.add_scaled = add_scaled;
  kernels.round = round_values;
  kernels.situ = situ;
  kernels.sigmoid_gate = sigmoid_gate;
  kernels.mix = mix;
  kernels.convolve = convolve;
  kernels.kda_head = kda_head;
  kernels.softmax_terms = softmax_terms;
  kernels.weighted_sum = weighted_sum;
  kernels.combine = combine;
  kernels.divide = divide;
  return kernels;
}
