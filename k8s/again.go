package k8s

import "strings"

// Again is a Job as it can be created once more when it has been deleted: without what the cluster has added, some of which
// would tie it to the pods of the old one, and not suspended. job is left as it is.
func Again(job Object) Object {
	metadata := map[string]any{}
	for _, key := range []string{"name", "namespace", "labels", "annotations"} {
		if value := job.find("metadata", key); value != nil {
			metadata[key] = clone(value)
		}
	}
	again := Object{"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": metadata, "spec": clone(job["spec"])}
	spec := again.submap("spec")
	delete(spec, "selector") // by the UID of the old Job
	delete(spec, "suspend")
	template := again.submap("spec", "template", "metadata")
	delete(template, "creationTimestamp")
	for _, keys := range []map[string]any{again.submap("metadata", "annotations"), again.submap("spec", "template", "metadata", "labels")} {
		for key := range keys {
			if strings.HasPrefix(key, "batch.kubernetes.io/") || key == "controller-uid" || key == "job-name" {
				delete(keys, key)
			}
		}
	}
	return again
}
