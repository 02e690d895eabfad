package arrowfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"andrea/dataset"
)

// Names in a dataset folder.
const (
	infoFile      = "dataset.json"
	tokenizerFile = "tokenizer.json"
)

// formatNumber is the number of the on-disk format. History: 1 = the first.
const formatNumber = 1

// Limits of what a dataset may claim.
const (
	MaxVocab       = 1 << 24 // largest vocabulary
	maxInfoBytes   = 32 << 20
	maxTokenizer   = 64 << 20 // bytes of tokenizer.json
	maxText        = 4096     // bytes of an identity
	maxShards      = 1 << 16
	maxShardBytes  = 1 << 40
	maxBatchTokens = 1 << 20 // and so of a row
	maxShardTokens = 1 << 26
)

// Meta is what the caller knows of a dataset before its first document.
type Meta struct {
	Vocab         int    // all ids are below it; more than dataset.BOS
	Tokenizer     string // identity of the tokenizer, such as its digest
	TokenizerFile []byte // content of tokenizer.json; the dataset does not look into it
	Source        string // fingerprint of what the tokens were made from; may be empty
}

// Info is what dataset.json says.
type Info struct {
	Format        int      `json:"format"`
	Vocab         int      `json:"vocab"`
	Tokenizer     string   `json:"tokenizer"`
	TokenizerFile FileInfo `json:"tokenizer_file"`
	Source        string   `json:"source"`
	Documents     uint64   `json:"documents"`
	Tokens        uint64   `json:"tokens"`
	Shards        []Shard  `json:"shards"`
	Fingerprint   string   `json:"-"` // SHA-256 of dataset.json, in hex: the dataset's identity
}

// FileInfo identifies the content of a file.
type FileInfo struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex, lower case
}

// Shard describes one shard file.
type Shard struct {
	File      string `json:"file"`
	Documents uint64 `json:"documents"` // that begin in this shard
	Tokens    uint64 `json:"tokens"`
	FileInfo
}

// Wide reports whether ids of a vocabulary need 32 bits, on disk and on the wire.
func Wide(vocab int) bool { return vocab > 1<<16 }

func shardName(i int) string { return fmt.Sprintf("shard-%05d.arrow", i) }

func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// marshal returns the bytes of dataset.json and sets the fingerprint to theirs.
func (info *Info) marshal() ([]byte, error) {
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	info.Fingerprint = fingerprint(data)
	return data, nil
}

// parseInfo reads dataset.json and believes nothing: a wrong field, count, name or sum is an error.
func parseInfo(data []byte) (Info, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Info{}, fmt.Errorf("not JSON of a dataset: %w", err)
	}
	if version.Format != formatNumber {
		return Info{}, fmt.Errorf("format %d: this program reads format %d", version.Format, formatNumber)
	}
	var info Info
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&info); err != nil {
		return Info{}, err
	}
	if err := info.check(); err != nil {
		return Info{}, err
	}
	info.Fingerprint = fingerprint(data)
	return info, nil
}

func (info *Info) check() error {
	if err := checkMeta(info.Vocab, info.Tokenizer, info.Source); err != nil {
		return err
	}
	if err := info.TokenizerFile.check(maxTokenizer); err != nil {
		return fmt.Errorf("tokenizer_file: %w", err)
	}
	if len(info.Shards) < 1 || len(info.Shards) > maxShards {
		return fmt.Errorf("%d shards: must be 1..%d", len(info.Shards), maxShards)
	}
	var documents, tokens uint64
	for i, shard := range info.Shards {
		if shard.File != shardName(i) {
			return fmt.Errorf("shard %d is the file %q: want %q", i, shard.File, shardName(i))
		}
		if shard.Tokens < 1 || shard.Tokens > maxShardTokens || shard.Documents > shard.Tokens {
			return fmt.Errorf("%s: %d documents of %d tokens in all: tokens must be 1..%d and documents no more",
				shard.File, shard.Documents, shard.Tokens, maxShardTokens)
		}
		if err := shard.check(maxShardBytes); err != nil {
			return fmt.Errorf("%s: %w", shard.File, err)
		}
		documents += shard.Documents
		tokens += shard.Tokens
	}
	if documents != info.Documents || tokens != info.Tokens {
		return fmt.Errorf("%d documents and %d tokens, but the shards have %d and %d", info.Documents, info.Tokens, documents, tokens)
	}
	if info.Shards[0].Documents < 1 {
		return fmt.Errorf("%s: no document begins in it", info.Shards[0].File)
	}
	return nil
}

func checkMeta(vocab int, tokenizer, source string) error {
	if vocab <= dataset.BOS || vocab > MaxVocab {
		return fmt.Errorf("vocab %d: must be %d..%d", vocab, dataset.BOS+1, MaxVocab)
	}
	for _, text := range []struct{ name, value string }{{"tokenizer", tokenizer}, {"source", source}} {
		if len(text.value) > maxText || !utf8.ValidString(text.value) {
			return fmt.Errorf("%s: must be at most %d bytes of UTF-8", text.name, maxText)
		}
	}
	if tokenizer == "" {
		return errors.New("tokenizer: the identity is empty")
	}
	return nil
}

var hexSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (f FileInfo) check(maxBytes int64) error {
	if f.Bytes < 0 || f.Bytes > maxBytes {
		return fmt.Errorf("%d bytes: must be 0..%d", f.Bytes, maxBytes)
	}
	if !hexSHA256.MatchString(f.SHA256) {
		return fmt.Errorf("sha256 %.80q: must be 64 hex digits", f.SHA256)
	}
	return nil
}
