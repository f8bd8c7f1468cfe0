package costs

import "golang.org/x/sys/unix"

// processor is the processor's name.
func processor() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}
