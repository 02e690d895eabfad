package andrea

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// modulePath is the module's name in import paths.
const modulePath = "andrea"

// folder is a folder with Go files that are no tests, whatever system they are built for.
type folder struct {
	path  string               // below the root, with slashes
	files map[string]*ast.File // by path
}

// fileSet places the files of all folders.
var fileSet = token.NewFileSet()

// folders parses the whole module once.
var folders = sync.OnceValues(func() ([]folder, error) {
	byPath := map[string]*folder{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(filepath.ToSlash(name)); {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case entry.IsDir() && name != "." && isModule(name):
			return fs.SkipDir // what it is made of is no concern of this one
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fileSet, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(name))
		if byPath[dir] == nil {
			byPath[dir] = &folder{path: dir, files: map[string]*ast.File{}}
		}
		byPath[dir].files[filepath.ToSlash(name)] = file
		return nil
	})
	var all []folder
	for _, f := range byPath {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b folder) int { return strings.Compare(a.path, b.path) })
	return all, err
})

// isModule reports that a folder is a Go module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// allFolders is folders for a test.
func allFolders(t *testing.T) []folder {
	t.Helper()
	all, err := folders()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d folders with Go files were found: is this the module's root?", len(all))
	}
	return all
}

// sorted returns the files of a folder by name.
func (f folder) sorted() []string {
	var names []string
	for name := range f.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
