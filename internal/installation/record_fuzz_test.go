package installation

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead checks that a damaged record is an error, and that a valid one can be written and read
// again. An ID must be a token.
func FuzzRead(f *testing.F) {
	f.Add(idA, []byte(`{"id":"`+idA+`","agent":"claude-code","policy":"/p","state":"/s","events":["Stop"],"event_timeouts_ms":{"Stop":1},"time":"2026-11-20T08:00:00Z"}`))
	f.Add(idB, []byte(`{"id":"`+idA+`"}`))
	f.Add(idA, []byte(`{"id":"`+idA+`","made":{"blank":"\n","gaps":{"":""}},"timeout_ms":-1}x`))
	f.Add("../../etc/passwd", []byte("null"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		if ValidID(id) {
			if err := os.WriteFile(filename(dir, id), data, 0o600); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Remove(filename(dir, id)) }()
		} else if filepath.Dir(filename(dir, id)) == dir && id != "" {
			// An ID that is not a token is not looked up, even if the file exists.
			_ = os.WriteFile(filename(dir, id), data, 0o600)
			defer func() { _ = os.Remove(filename(dir, id)) }()
		}
		rec, err := Read(dir, id)
		if err != nil {
			if rec.ID != "" || rec.Policy != "" {
				t.Errorf("Read = %+v beside the error %v", rec, err)
			}
			return
		}
		if rec.ID != id || !ValidID(id) {
			t.Fatalf("Read(%q) of %q gives the installation %q", id, data, rec.ID)
		}
		rec.Timeout("Stop")
		if err := Write(dir, rec); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if again, err := Read(dir, id); err != nil || again.Policy != rec.Policy || again.State != rec.State {
			t.Errorf("Read after Write = %+v, %v, want %+v", again, err, rec)
		}
	})
}
