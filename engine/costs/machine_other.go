//go:build !linux && !darwin

package costs

func processor() string { return "" }
