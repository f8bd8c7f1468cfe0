package main

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionNamesModuleRevisionAndGo(t *testing.T) {
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3, revision abc, go1.26.1 linux/arm64":               {Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}},
		"(devel), revision abc with changes, go1.26.1 linux/arm64": {Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}},
		"(devel), no revision, go1.26.1 linux/arm64":               {},
	} {
		info.GoVersion = "go1.26.1"
		info.Settings = append(info.Settings, debug.BuildSetting{Key: "GOOS", Value: "linux"}, debug.BuildSetting{Key: "GOARCH", Value: "arm64"})
		require.Equal(t, want, versionOf(&info))
	}
	r := surmise(t, "", "--version")
	require.Equal(t, statusOK, r.status)
	require.Regexp(t, `^surmise version .*, .*, `+regexp.QuoteMeta(runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)+`\n$`, r.out)
	require.Empty(t, r.errors)
}
