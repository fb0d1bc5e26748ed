// The arithmetic of one pair (query, key) of additive attention, for one number or for a vector of them: one body for
// the GPU and for each instruction set of the CPU. No include guard on purpose: each of those includes it inside a
// namespace of its own, where reciprocal() is its own.
//
// float32: keys and queries come as e^(2x), computed once per row, so that tanh(a + b) = 1 - 2 / (1 + e^2a e^2b) costs
// no exponential per pair. Absolute error below 1e-6. Exponents are clamped to ±86 (kExponentLimit), where tanh of the
// sum differs only if both summands pass 43 with opposite signs. float64: x itself, and the library's tanh.

// Beyond it tanh is 1 in float32; it also keeps 1 + p finite, which a Newton step for the reciprocal needs. Written so
// that NaN stays NaN.
template <typename Number>
DTRAIN_HD inline Number bounded(Number product) {
  const Number most = Number{} + 1e30f;
  return product > most ? most : product;
}

template <typename Number>
DTRAIN_HD inline Number tanh_of_sum(Number key, Number query) {
  return 1.0f - 2.0f * reciprocal(1.0f + bounded(key * query));
}
DTRAIN_HD inline double tanh_of_sum(double key, double query) { return ::tanh(key + query); }

// d tanh / d sum, times the gradient of the pair's score. (v is left out: it is common to a column.)
template <typename Number, typename Gradient>
DTRAIN_HD inline Number slope(Number tanh, Gradient gradient) {
  return gradient * (1 - tanh * tanh);
}
