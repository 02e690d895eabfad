package textdir

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"andrea/dataset"
)

// orderSeed keys the order of documents. It is a constant: the order belongs to the dataset, not to
// a run, and a change of it makes all prepared tokens other tokens.
const orderSeed = 0x7465787464697231

func sortDocuments(documents []Document) {
	slices.SortFunc(documents, func(a, b Document) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.SHA256[:], b.SHA256[:]), strings.Compare(a.Path, b.Path))
	})
}

// Shuffled returns the documents (as Walk sorted them) in the order in which the dataset holds them:
// the i-th is documents[P(i)] with P the dataset.Permutation of a fixed seed. So the end of the
// dataset, which is held out for validation, is a fair sample and not the folder of the last name.
// The caller owns the new slice.
func Shuffled(documents []Document) []Document {
	order := dataset.NewPermutation(uint64(len(documents)), orderSeed, 0)
	shuffled := make([]Document, len(documents))
	for i := range shuffled {
		shuffled[i] = documents[order.At(uint64(i))]
	}
	return shuffled
}

// Fingerprint identifies what a dataset is made from: names and contents of the documents in Walk's
// order, and extra, whatever else decides the tokens (tokenizer, format numbers). It is the SHA-256,
// in hex, of, each text preceded by its length as 8 bytes little-endian,
//
//	extra, then for each document its name and its 32 bytes of SHA-256
//
// Where the files lie and when they were written does not matter.
func Fingerprint(documents []Document, extra string) string {
	sum := sha256.New()
	add := func(text string) {
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
		sum.Write([]byte(text))
	}
	add(extra)
	for _, document := range documents {
		add(document.Name)
		add(string(document.SHA256[:]))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
