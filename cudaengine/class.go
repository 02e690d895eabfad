//go:build cuda && cgo && linux

package cudaengine

import (
	"strings"

	"andrea/model"
)

// class is the engine class of a GPU model, a precision and a library of products, with its version; empty: none.
func class(gpu, precision, library string) string {
	var name strings.Builder
	for _, r := range strings.ToLower(gpu) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			name.WriteRune(r)
		} else if s := name.String(); s != "" && !strings.HasSuffix(s, "_") {
			name.WriteByte('_')
		}
	}
	kind := "cuda-" + strings.TrimSuffix(name.String(), "_")
	if library != "" {
		kind += "-" + CuBLASLt + "_" + strings.ReplaceAll(library, ".", "_")
	}
	return model.EngineClass(kind, precision)
}
