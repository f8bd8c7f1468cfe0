// Package stop decides where an answer ends.
package stop
