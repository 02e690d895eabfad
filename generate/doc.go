// Package generate samples text from a model, token by token.
//
// The text begins with BOS and the prompt. Every further token is drawn from the softmax of the
// model's logits by a number that depends on the seed and on the token's place alone, so the same
// model, prompt and options give the same text on every machine.
//
// A model sees at most its context. When that is full, the older half is forgotten and sampling goes
// on behind the newer half: the text may be as long as one likes, but does not remember all of itself.
package generate
