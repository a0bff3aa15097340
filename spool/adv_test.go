package spool

import (
	"testing"
	"time"
)

func TestAdv(t *testing.T) {
	for i := range secrets {
		for _, w := range secrets[i].words {
			for _, sep := range []string{"", "-", " ", ".", "=", ": ", "a", "PRIVATE KEY-----"} {
				text := rep(w+sep, 100000/(len(w)+len(sep)))
				b := time.Now()
				Mask(text)
				if d := time.Since(b); d > 300*time.Millisecond {
					t.Log(w, sep, d)
				}
			}
		}
	}
}
