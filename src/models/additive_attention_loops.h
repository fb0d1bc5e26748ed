// The loops of additive_attention_cpu.cpp over one sample. No include guard on purpose: included once per instruction
// set, in a namespace that defines Lanes (a vector of Number, or Number itself), Number, kLanes, load() and store().

inline Number sum_of(Lanes lanes) {
  alignas(64) Number parts[kLanes];
  store(parts, lanes);
  Number sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += parts[i];
  return sum;
}

// Scores of one query against the elements `left`, into scores[0..count).
inline void score(const AttentionProblem<Number>& p, int64_t sample, const Number* query, const int32_t* left,
                  int64_t count, Number* scores) {
  const int64_t row = p.samples * p.hidden, whole = p.hidden - p.hidden % kLanes;
  const Number* keys = p.keys + sample * p.hidden;
  for (int64_t i = 0; i < count; ++i) {
    const Number* key = keys + left[i] * row;
    Lanes even = {}, odd = {};
    int64_t k = 0;
    for (; k + 2 * kLanes <= whole; k += 2 * kLanes) {
      even += load(p.v + k) * tanh_of_sum(load(key + k), load(query + k));
      odd += load(p.v + k + kLanes) * tanh_of_sum(load(key + k + kLanes), load(query + k + kLanes));
    }
    if (k < whole) even += load(p.v + k) * tanh_of_sum(load(key + k), load(query + k));
    Number sum = sum_of(even + odd);
    for (k = whole; k < p.hidden; ++k) sum += p.v[k] * tanh_of_sum(key[k], query[k]);
    scores[i] = sum;
  }
}

inline void forward(const AttentionProblem<Number>& p, int64_t sample, Number* residual, Number* nll,
                    Scratch& scratch) {
  const int64_t length = std::clamp<int64_t>(p.lengths[sample], 0, p.steps);
  std::fill_n(residual, p.steps * p.steps, Number(0));
  std::vector<int32_t>& left = scratch.left;
  left.resize(static_cast<size_t>(length));
  std::iota(left.begin(), left.end(), 0);
  std::vector<Number>& scores = scratch_numbers<Number>(scratch);
  scores.resize(static_cast<size_t>(length));
  Number total = 0;
  for (int64_t t = 0; t < length; ++t) {
    const auto count = static_cast<int64_t>(left.size());
    const auto chosen = std::find(left.begin(), left.end(), static_cast<int32_t>(p.order[sample * p.steps + t]));
    if (chosen == left.end()) {
      total = std::numeric_limits<Number>::infinity();
      break;
    }
    score(p, sample, p.queries + (t * p.samples + sample) * p.hidden, left.data(), count, scores.data());
    const Number highest = *std::max_element(scores.begin(), scores.begin() + count);
    Number sum = 0;
    const Number of_chosen = scores[static_cast<size_t>(chosen - left.begin())];
    for (int64_t i = 0; i < count; ++i)
      sum += scores[static_cast<size_t>(i)] = std::exp(scores[static_cast<size_t>(i)] - highest);
    for (int64_t i = 0; i < count; ++i) {
      residual[t * p.steps + left[static_cast<size_t>(i)]] = scores[static_cast<size_t>(i)] / sum;
    }
    residual[t * p.steps + *chosen] -= 1;
    total += std::log(sum) + highest - of_chosen;
    left.erase(chosen);
  }
  *nll = total;
}

// Gradients of the columns [k, k + width of Column). The keys' column is copied to where its rows lie side by side:
// rows of 2^n bytes would fall into few sets of the cache.
template <typename Column, typename Load, typename Store>
inline void backward_columns(const AttentionProblem<Number>& p, int64_t sample, int64_t length, int64_t k,
                             const Pairs<Number>& pairs, Load load_at, Store store_at, int64_t width, Number* key,
                             Number* key_sum, Number* keys, Number* queries, Number* v) {
  const int64_t row = p.samples * p.hidden, base = sample * p.hidden + k;
  for (int64_t j = 0; j < length; ++j) {
    store_at(key + j * width, load_at(p.keys + j * row + base));
    store_at(key_sum + j * width, Column{});
  }
  const Column weight = load_at(p.v + k);
  Column of_v = {};
  size_t pair = 0;
  for (int64_t t = 0; t < length; ++t) {
    const Column query = load_at(p.queries + t * row + base);
    Column query_sum = {};
    for (const size_t end = pairs.ends[static_cast<size_t>(t)]; pair < end; ++pair) {
      const int32_t j = pairs.element[pair];
      const Number gradient = pairs.gradient[pair];
      const Column tanh = tanh_of_sum(load_at(key + j * width), query);
      const Column part = slope(tanh, gradient);
      of_v += gradient * tanh;
      query_sum += part;
      store_at(key_sum + j * width, load_at(key_sum + j * width) + part);
    }
    store_at(queries + t * row + base, weight * query_sum);
  }
  for (int64_t j = 0; j < length; ++j) store_at(keys + j * row + base, weight * load_at(key_sum + j * width));
  store_at(v + base, of_v);
}

inline void backward(const AttentionProblem<Number>& p, int64_t sample, const Number* residual, Number scale,
                     Number* keys, Number* queries, Number* v, Pairs<Number>& pairs) {
  const int64_t length = std::clamp<int64_t>(p.lengths[sample], 0, p.steps);
  pairs.collect(residual, p.steps, length, scale);
  for (int64_t t = length; t < p.steps; ++t) {
    std::fill_n(keys + (t * p.samples + sample) * p.hidden, p.hidden, Number(0));
    std::fill_n(queries + (t * p.samples + sample) * p.hidden, p.hidden, Number(0));
  }
  const int64_t whole = p.hidden - p.hidden % kLanes;
  Number* const key = pairs.aligned_columns(2 * length * kLanes);
  for (int64_t k = 0; k < whole; k += kLanes) {
    backward_columns<Lanes>(
        p, sample, length, k, pairs, [](const Number* at) { return load(at); },
        [](Number* at, Lanes value) { store(at, value); }, kLanes, key, key + length * kLanes, keys, queries, v);
  }
  for (int64_t k = whole; k < p.hidden; ++k) {
    backward_columns<Number>(
        p, sample, length, k, pairs, [](const Number* at) { return *at; },
        [](Number* at, Number value) { *at = value; }, 1, key, key + length, keys, queries, v);
  }
}

inline void forward_samples(const AttentionProblem<Number>& p, int64_t begin, int64_t end, Number* residual,
                            Number* nll) {
  Scratch scratch;
  for (int64_t b = begin; b < end; ++b) forward(p, b, residual + b * p.steps * p.steps, nll + b, scratch);
}

inline void backward_samples(const AttentionProblem<Number>& p, int64_t begin, int64_t end, const Number* residual,
                             const Number* scale, Number* keys, Number* queries, Number* v) {
  Pairs<Number> pairs;
  for (int64_t b = begin; b < end; ++b) {
    backward(p, b, residual + b * p.steps * p.steps, scale[b], keys, queries, v, pairs);
  }
}
