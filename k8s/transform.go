package k8s

import "slices"

// clusterKinds are the kinds here that live in no namespace.
var clusterKinds = []string{"Namespace", "PersistentVolume"}

// setNamespace puts the objects into a namespace; none: they stay where they are.
func setNamespace(objects []Object, namespace string) {
	for _, o := range objects {
		if namespace != "" && !slices.Contains(clusterKinds, o.Kind()) {
			o.submap("metadata")["namespace"] = namespace
		}
	}
}

// addPrefix renames the objects, and what names them.
func addPrefix(objects []Object, prefix string) {
	if prefix == "" {
		return
	}
	renamed := map[[2]string]bool{} // kind and former name
	for _, o := range objects {
		if o.Kind() != "Namespace" {
			renamed[[2]string{o.Kind(), o.Name()}] = true
			o.submap("metadata")["name"] = prefix + o.Name()
		}
	}
	rename := func(holder map[string]any, key, kind string) {
		if name := text(holder[key]); renamed[[2]string{kind, name}] {
			holder[key] = prefix + name
		}
	}
	for _, o := range objects {
		rename(o.podSpec(), "serviceAccountName", "ServiceAccount")
		for _, volume := range maps(o.podSpec()["volumes"]) {
			v := Object(volume)
			for _, source := range []struct{ key, name, kind string }{
				{"configMap", "name", "ConfigMap"}, {"secret", "secretName", "Secret"}, {"persistentVolumeClaim", "claimName", "PersistentVolumeClaim"},
			} {
				holder, _ := v.find(source.key).(map[string]any)
				rename(holder, source.name, source.kind)
			}
		}
	}
}

// addLabels labels the objects and, with selectors, all that selects pods among them.
func addLabels(objects []Object, pairs map[string]string, selectors bool) {
	add := func(m map[string]any) {
		for key, value := range pairs {
			m[key] = value
		}
	}
	for _, o := range objects {
		add(o.submap("metadata", "labels"))
		if !selectors {
			continue
		}
		switch o.Kind() {
		case "Service":
			add(o.submap("spec", "selector"))
		case "Deployment":
			add(o.submap("spec", "selector", "matchLabels"))
			add(o.submap("spec", "template", "metadata", "labels"))
		case "Job":
			add(o.submap("spec", "template", "metadata", "labels"))
		case "PodDisruptionBudget":
			add(o.submap("spec", "selector", "matchLabels"))
		case "NetworkPolicy":
			add(o.submap("spec", "podSelector", "matchLabels"))
			for _, peer := range peers(o) {
				if m, exists := peer.find("podSelector", "matchLabels").(map[string]any); exists {
					add(m)
				}
			}
		}
	}
}

// peers are the ends of a policy's connections.
func peers(policy Object) []Object {
	var all []Object
	for _, way := range []struct{ rules, ends string }{{"ingress", "from"}, {"egress", "to"}} {
		for _, rule := range maps(policy.find("spec", way.rules)) {
			for _, peer := range maps(rule[way.ends]) {
				all = append(all, Object(peer))
			}
		}
	}
	return all
}

// replace gives the containers of an image the new one.
func (i image) replace(objects []Object) {
	for _, o := range objects {
		for _, c := range o.containers() {
			if c["image"] == i.Name {
				c["image"] = i.NewName + ":" + i.NewTag
			}
		}
	}
}

// applied drops what is only there to be named.
func applied(objects []Object) []Object {
	return slices.DeleteFunc(objects, func(o Object) bool {
		return o.find("metadata", "annotations", "config.kubernetes.io/local-config") == "true"
	})
}
