package model

import "strings"

// Precisions in which engines compute; bf16 multiplies bfloat16 and adds in fp32.
const (
	FP32 = "fp32"
	BF16 = "bf16"
)

// AnyEngine is what a job asks for that leaves the engine to its first worker.
const AnyEngine = "auto"

// ClassKind is the kind of device that an engine class, or the beginning of one, names: "cpu" or "cuda".
func ClassKind(class string) string {
	kind, _, _ := strings.Cut(class, "-")
	return kind
}

// ClassPrecision is the precision that a whole engine class names; empty if it is not whole.
func ClassPrecision(class string) string {
	parts := strings.Split(class, "-")
	if len(parts) < 3 || !strings.HasPrefix(parts[len(parts)-1], "n") {
		return ""
	}
	return parts[len(parts)-2]
}

// ClassFits reports whether an engine of a class is what a job asks for: AnyEngine, a class, or the beginning of one up
// to a hyphen, such as a kind.
func ClassFits(class, wanted string) bool {
	return wanted == AnyEngine || wanted == class || strings.HasPrefix(class, wanted+"-")
}

// KindComputes reports whether engines of a kind compute in a precision. All have fp32.
func KindComputes(kind, precision string) bool {
	return precision == FP32 || precision == BF16 && kind == "cuda"
}
