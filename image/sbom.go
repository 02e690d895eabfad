package image

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// Component is a part of an image.
type Component struct {
	Name, Version string
	Licence       string // as SPDX names it
	Kind          string // of package URL: golang, deb, generic
}

// SBOM is the bill of materials of a Go program, in SPDX 2.3 as JSON: the modules that the toolchain recorded in it,
// its own release, and what else lies in the image. licence is the program's, as SPDX names it.
func SBOM(program []byte, licence string, beside ...Component) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("reading what the program was built of: %w", err)
	}
	document := spdx{
		Version: "SPDX-2.3", ID: "SPDXRef-DOCUMENT", DataLicense: "CC0-1.0", Name: info.Main.Path,
		// Nobody looks there; the name must differ from document to document.
		Namespace: "https://spdx.org/spdxdocs/" + info.Main.Path + "-" + strings.TrimPrefix(digest(program), "sha256:"),
		Creation:  creation{Created: "1970-01-01T00:00:00Z", Creators: []string{"Tool: " + info.Main.Path}},
	}
	document.add(Component{info.Main.Path, info.Main.Version, licence, "golang"})
	document.add(Component{"stdlib", info.GoVersion, "BSD-3-Clause", "golang"})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		document.add(Component{m.Path, m.Version, "NOASSERTION", "golang"})
	}
	for _, c := range beside {
		document.add(c)
	}
	return json.MarshalIndent(document, "", " ")
}

type spdx struct {
	Version       string         `json:"spdxVersion"`
	ID            string         `json:"SPDXID"`
	DataLicense   string         `json:"dataLicense"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Location string      `json:"downloadLocation"`
	Licence  string      `json:"licenseConcluded"`
	Analyzed bool        `json:"filesAnalyzed"`
	Refs     []reference `json:"externalRefs"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// add adds a component; the first is what the document is about, and depends on the others.
func (s *spdx) add(c Component) {
	id := fmt.Sprintf("SPDXRef-Package-%d", len(s.Packages))
	s.Packages = append(s.Packages, spdxPackage{
		ID: id, Name: c.Name, Version: c.Version, Location: "NOASSERTION", Licence: c.Licence,
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:" + c.Kind + "/" + c.Name + "@" + c.Version}},
	})
	if len(s.Packages) == 1 {
		s.Relationships = append(s.Relationships, relationship{s.ID, "DESCRIBES", id})
		return
	}
	s.Relationships = append(s.Relationships, relationship{s.Packages[0].ID, "DEPENDS_ON", id})
}
