// Package k8s holds the Kubernetes manifests of a run, a kustomize base with components and overlays, and
// renders them without kustomize: it reads the same files, by the few rules that they need, so that
// "kubectl apply -k" and "andrea k8s submit" give the same objects. What a cluster says of a run it turns
// into a state. It talks to no cluster itself.
package k8s

import "embed"

// manifests are base, components and overlays.
//
//go:embed base components overlays
var manifests embed.FS
