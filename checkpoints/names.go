package checkpoints

import (
	"fmt"
	"strconv"
	"strings"
)

// Names of the files of a checkpoint. Equal weights give a byte-identical ModelFile, so it holds
// neither a step nor a run nor a time.
const (
	ManifestFile  = "manifest.json"         // written last; all the others are listed in it
	ConfigFile    = "config.json"           // shape and switches of the model
	ModelFile     = "model.safetensors"     // weights
	OptimizerFile = "optimizer.safetensors" // first moments of all tensors, then second moments
	TokenizerFile = "tokenizer.json"        // the run's tokenizer, byte for byte
)

// TempPrefix begins the names of folders that are no checkpoints: half written ones and those on
// their way out. Whoever owns the run may delete them.
const TempPrefix = ".tmp-"

const stepPrefix = "step-"

// StepFolder is the folder of a step's checkpoint: eight digits at least, more for larger steps. The
// zeros help people only; whatever compares steps compares numbers.
func StepFolder(step int) string { return fmt.Sprintf(stepPrefix+"%08d", step) }

// ParseStepFolder is the inverse of StepFolder; false for every other name.
func ParseStepFolder(name string) (step int, ok bool) {
	digits, found := strings.CutPrefix(name, stepPrefix)
	if !found {
		return 0, false
	}
	step, err := strconv.Atoi(digits)
	if err != nil || step < 0 || StepFolder(step) != name {
		return 0, false
	}
	return step, true
}
