package demo

import (
	"embed"
	"io/fs"
)

// The directories of the family inside [FS].
const (
	// Target is the directory of the target model.
	Target = "target"
	// Draft is the directory of the ordinary draft model.
	Draft = "draft"
	// MTP is the directory of the multi-token-prediction head.
	MTP = "mtp"
	// DFlash is the directory of the block drafter.
	DFlash = "dflash"
)

//go:embed target draft mtp dflash
var files embed.FS

// FS returns the embedded family, a read-only file system with the directories
// [Target], [Draft], [MTP] and [DFlash]. Its files satisfy io.ReaderAt and stay
// valid for the life of the process.
func FS() fs.FS {
	return files
}
