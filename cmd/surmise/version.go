package main

import (
	"fmt"
	"runtime/debug"
)

// version says what the program was built from: the module's version, the
// revision of the working tree, and Go's version.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown: built without module information"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	module := info.Main.Version
	if module == "" {
		module = "(devel)"
	}
	revision := "no revision"
	if r := settings["vcs.revision"]; r != "" {
		revision = "revision " + r
		if settings["vcs.modified"] == "true" {
			revision += " with changes"
		}
	}
	return fmt.Sprintf("%s, %s, %s %s/%s", module, revision, info.GoVersion, settings["GOOS"], settings["GOARCH"])
}
