package tokenizer

const (
	algorithm = "peaks-or/grow-prune"
	scope     = "word"
)
