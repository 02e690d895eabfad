// Package dataset decides which windows of a token stream are trained on, in which order, and which
// are held out. It is pure: the order is a function of numbers only, so the coordinator needs no list
// of windows in memory, a resumed run finds its place from the step number alone, and anybody can
// recompute what any step of any run was trained on.
//
// The stream is the concatenation of all documents' tokens; every document begins with BOS. A window
// is T+1 consecutive tokens (T inputs and their targets); window w starts at w·T.
//
// Reading and writing tokens on disk is the business of package arrowfile, importing text of package
// textdir.
package dataset

// BOS is the token id with which every document begins. It occurs nowhere else in a document.
const BOS = 256
