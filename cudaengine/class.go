//go:build cuda && cgo && linux

package cudaengine

import (
	"strings"

	"andrea/model"
)

// class is the engine class of a GPU model and a precision.
func class(gpu, precision string) string {
	var name strings.Builder
	for _, r := range strings.ToLower(gpu) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			name.WriteRune(r)
		} else if s := name.String(); s != "" && !strings.HasSuffix(s, "_") {
			name.WriteByte('_')
		}
	}
	return model.EngineClass("cuda-"+strings.TrimSuffix(name.String(), "_"), precision)
}
