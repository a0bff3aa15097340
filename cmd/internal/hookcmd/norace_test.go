//go:build !race

package hookcmd

const raceDetector = false
