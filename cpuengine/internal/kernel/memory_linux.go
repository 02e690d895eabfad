package kernel

import "golang.org/x/sys/unix"

// adviseHugePages asks for huge pages under a block that begins on one. The bits do not
// depend on the answer, so an old or differently configured kernel's refusal is no error.
func adviseHugePages(block []byte) {
	if whole := len(block) / hugePage * hugePage; whole > 0 {
		_ = unix.Madvise(block[:whole], unix.MADV_HUGEPAGE)
	}
}
