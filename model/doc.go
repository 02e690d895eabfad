// Package model describes the ANDREA transformers as values: shapes and their
// faults, the flat parameter vector with its tensors and buckets, initial weights,
// digests of bits, the arithmetic cost, and the interface of an engine that
// computes them. It does no I/O.
//
// The network (B windows of T tokens, d = d_model):
//
//	x = norm(wte[token] + wpe[position])              (embed_norm)
//	for each layer: x = x + wo · attention(norm(x))
//	                x = x + fc2 · act(fc1 · norm(x))
//	logits = lm_head · x                              (final_norm: norm(x) instead)
//
// norm is RMSNorm without gain, act is ReLU squared or ReLU, attention is causal
// softmax((q·k)/sqrt(head_dim))·v per head. There are no biases.
package model
