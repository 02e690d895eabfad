package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// class sorts letters. A letter is here any well-formed UTF-8 character, or a single byte that is part of none.
type class uint8

const (
	other    class = iota // punctuation, symbols and all else
	alphabet              // Unicode categories L and M
	digit                 // category N
	space                 // White_Space
	broken                // a byte outside well-formed UTF-8
)

// maxWordBytes cuts overlong words, so that text without spaces costs no memory or time out of proportion.
const maxWordBytes = 4096

var asciiClass = func() (table [utf8.RuneSelf]class) {
	for i := range table {
		table[i] = classOf(rune(i))
	}
	return table
}()

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return alphabet
	case unicode.IsNumber(r):
		return digit
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// letterAt returns the class of the first letter of text and its size in bytes. The text is not empty.
func letterAt(text []byte) (class, int) {
	if text[0] < utf8.RuneSelf {
		return asciiClass[text[0]], 1
	}
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError && size == 1 {
		return broken, 1
	}
	return classOf(r), size
}

// runEnd returns where the run of letters of class c ends that begins at text[from], cut to maxWordBytes.
func runEnd(text []byte, from int, c class) int {
	end := from
	for end < len(text) {
		next, size := letterAt(text[end:])
		if next != c || end+size-from > maxWordBytes {
			break
		}
		end += size
	}
	return end
}

// wordEnd returns the size in bytes of the first word of text, which is not empty. A word is a run of letters of one
// class; a lone 0x20 before a run opens that run's word, unless the run is broken: so a word is well-formed or broken
// as a whole.
func wordEnd(text []byte) int {
	c, _ := letterAt(text)
	end := runEnd(text, 0, c)
	if c != space || end != 1 || text[0] != ' ' || end == len(text) {
		return end
	}
	if next, _ := letterAt(text[end:]); next != broken && next != space {
		return runEnd(text, end, next)
	}
	return end
}
