// Package textdir finds the documents in files and folders of text: one regular file is one
// document. It says what it left out and why, puts the documents into the order in which a dataset
// holds them, and identifies a set of documents, so that tokens need not be made again.
package textdir
