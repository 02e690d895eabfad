//go:build cuda && cgo && linux

package cudaengine

import (
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/kernels"
	"andrea/model"
)

// kernel is a row of the table with its handle on the device.
type kernel struct {
	kernels.Kernel
	handle *driver.Kernel
}

// kernelSet are the kernels of an engine.
type kernelSet struct {
	mul                                             [3]kernel // by layout
	actForward, actBackward                         kernel
	attentionForward                                kernel
	attentionDelta, attentionKeys, attentionQueries kernel
	normForward, normBackward, embedNormBackward    kernel
	embedForward, embedTokens, embedPositions       kernel
	crossEntropy, lossSum                           kernel
	narrow, adamw, digest, fold, addParts           kernel
	sumSquares                                      kernel
}

// loadKernels finds every kernel that an engine of this shape and precision launches.
func loadKernels(d *driver.Device, c model.Config, o Options) (set kernelSet, err error) {
	suffix, headSuffix := "_"+o.Precision, "_"+o.Precision
	if o.Precision == BF16 && kernels.Fast(c.HeadDim()) {
		headSuffix = fmt.Sprintf("_d%d_bf16", c.HeadDim())
	}
	modules := map[string]*driver.Module{}
	for _, k := range []struct {
		to   *kernel
		name string
	}{
		{&set.mul[nt], "gemm_nt" + suffix},
		{&set.mul[nn], "gemm_nn" + suffix},
		{&set.mul[tn], "gemm_tn" + suffix},
		{&set.actForward, "act_forward" + suffix},
		{&set.actBackward, "act_backward" + suffix},
		{&set.attentionForward, "attention_forward" + headSuffix},
		{&set.attentionDelta, "attention_delta" + suffix},
		{&set.attentionKeys, "attention_keys" + headSuffix},
		{&set.attentionQueries, "attention_queries" + headSuffix},
		{&set.normForward, "norm_forward" + suffix},
		{&set.normBackward, "norm_backward" + suffix},
		{&set.embedNormBackward, "norm_backward_" + FP32},
		{&set.embedForward, "embed_forward"},
		{&set.embedTokens, "embed_tokens"},
		{&set.embedPositions, "embed_positions"},
		{&set.crossEntropy, "cross_entropy" + suffix},
		{&set.lossSum, "loss_sum"},
		{&set.narrow, "narrow"},
		{&set.adamw, "adamw"},
		{&set.digest, "digest"},
		{&set.fold, "fold"},
		{&set.addParts, "add_parts"},
		{&set.sumSquares, "sum_squares"},
	} {
		if *k.to, err = loadKernel(d, modules, k.name); err != nil {
			return set, err
		}
	}
	return set, nil
}

// loadKernel finds one kernel and loads its module when it is the first of it.
func loadKernel(d *driver.Device, modules map[string]*driver.Module, name string) (kernel, error) {
	k, ok := kernels.Lookup(name)
	if !ok {
		return kernel{}, fmt.Errorf("loading the kernels: %s is not in their table", name)
	}
	if modules[k.Module] == nil {
		image, err := kernels.Image(k.Module)
		if err != nil {
			return kernel{}, err
		}
		if modules[k.Module], err = d.Load(image); err != nil {
			return kernel{}, fmt.Errorf("module %s: %w", k.Module, err)
		}
	}
	handle, err := modules[k.Module].Kernel(name, len(k.Params), k.Shared)
	return kernel{k, handle}, err
}
