//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
)

// writeFiles writes what the node's programs read.
func (p plan) writeFiles() error {
	if err := os.MkdirAll(p.file("cni"), 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(p.file("containerd.toml"), p.containerd(), 0o644),
		os.WriteFile(p.file("cni/10-pods.conflist"), p.cni(), 0o644),
		os.WriteFile(p.file("kubelet.yaml"), p.kubelet(), 0o644),
		os.WriteFile(p.file("kubeconfig"), kubeconfig("https://"+gateway+":6443", p.Token), 0o600),
		os.WriteFile(p.file("resolv.conf"), nil, 0o644))
}

// containerd is its configuration. Without restrict_oom_score_adj sandboxes do not start where the user may not make
// processes less likely to be killed.
func (p plan) containerd() []byte {
	return fmt.Appendf(nil, `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = %q

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%q]
  conf_dir = %q
`, containerdSocket, pauseImage, cniFolder, p.file("cni"))
}

// cni is the network of the pods: a bridge, whose addresses the other nodes have routes to.
func (p plan) cni() []byte {
	return fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`, p.Pods)
}

// kubelet is its configuration. It evicts nothing for want of disk: the machine's disk is not the nodes'. Its lease is
// short, so that the loss of a node is noticed soon.
func (p plan) kubelet() []byte {
	taints := "[]"
	if p.Name == SpareNode {
		taints = "[{key: " + SpareTaint + ", effect: NoSchedule}]"
	}
	return fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: %[2]q
clusterDNS: [%[3]s]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://%[4]s
evictionHard: {imagefs.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%"}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeLeaseDurationSeconds: 8
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 1m
registerWithTaints: %[6]s
resolvConf: %[5]s
`, p.Address, p.Cgroup, gateway, containerdSocket, p.file("resolv.conf"), taints)
}
