//go:build !race

package answer

const raceDetector = false
